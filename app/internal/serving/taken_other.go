//go:build !unix

package serving

import "strings"

// isTaken reports whether an address cannot be opened because another process has it.
func isTaken(err error) bool {
	return strings.Contains(err.Error(), "Only one usage") ||
		strings.Contains(err.Error(), "in use")
}
