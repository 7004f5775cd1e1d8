// Package archtest holds the rules of the house that no compiler checks.
//
// It has tests only. They read the source tree: who imports whom (deps_test.go),
// which packages stay free of clocks and I/O (pure_test.go), where Redis commands
// may be named (commands_test.go), what each package and the top level must look
// like (layout_test.go), and that no test sleeps (sleep_test.go). A package that
// doesn't exist yet breaks nothing; once it has a Go file, it is checked.
//
// The tables are decisions, not descriptions: don't change one to make a build
// pass, change it when the design changes, together with docs/architecture.md.
package archtest
