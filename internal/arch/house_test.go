package arch

import "testing"

func TestHouse(t *testing.T) {
	all := readAll(t)
	if len(all) < 20 {
		t.Fatalf("found %d Go files: is this the repository?", len(all))
	}
	rules := map[string]func([]*source) []string{
		"blind":      checkBlind,
		"floors":     checkFloors,
		"size":       checkSize,
		"goroutines": checkGo,
		"globals":    checkGlobals,
		"names":      checkNames,
		"sleep":      checkSleep,
		"promises":   checkPromises,
		"comments":   checkComments,
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) { report(t, rule(all)) })
	}
}

func TestDocumentsInStep(t *testing.T) {
	all, texts := readAll(t), pages(t)
	t.Run("verbs", func(t *testing.T) {
		names := verbs(all)
		if len(names) == 0 {
			t.Error("found no verbs in cmd/tidemark: its commands set cobra's Use to a literal")
		}
		report(t, checkVerbs(names, texts["README.md"]))
	})
	t.Run("picture", func(t *testing.T) {
		report(t, checkPicture(packages(all), texts["docs/ARCHITECTURE.md"], exists))
	})
	t.Run("links", func(t *testing.T) {
		for page, text := range texts {
			report(t, checkLinks(page, text, exists))
		}
	})
	t.Run("targets", func(t *testing.T) {
		report(t, checkTargets(readText(t, "Makefile"), texts))
	})
	t.Run("decisions", func(t *testing.T) {
		report(t, checkOrder("docs/DECISIONS.md", texts["docs/DECISIONS.md"]))
	})
}

func report(t *testing.T, bad []string) {
	t.Helper()
	for _, b := range bad {
		t.Error(b)
	}
}
