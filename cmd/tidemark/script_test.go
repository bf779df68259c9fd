package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run the real main as the command `tidemark`.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tidemark": main})
}

// TestScripts runs the command line behaviour in testdata/script. $SAMPLES is
// the directory of the real journal files.
func TestScripts(t *testing.T) {
	samples, err := filepath.Abs("../../journal/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SAMPLES", samples)
			return nil
		},
	})
}
