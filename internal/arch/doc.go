// Package arch is the shape of the house as a test: who may import whom, how long
// a file and a function may be, where a goroutine may begin, what may not be a
// global, and whether the documents name what there is. It reads the source; it
// holds no code of the program.
//
// A rule is a func from sources to complaints, so that house_test.go can apply it
// to the repository and rules_test.go to a source that breaks it.
package arch
