package rig

import (
	"fmt"
	"os"
	"strings"
)

// ReplaceIn puts text between the marks that a make target has in a file.
func ReplaceIn(path, target, text string) error {
	begin := fmt.Sprintf("<!-- %s: begin; written by make %s -->\n", target, target)
	end := fmt.Sprintf("<!-- %s: end -->\n", target)
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok1 := strings.Cut(string(old), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no marks of %s", path, target)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}
