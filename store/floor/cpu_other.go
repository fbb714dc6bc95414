//go:build !unix

package floor

import "time"

// processTime returns zero: on this system the used time of the process is not known.
func processTime() time.Duration { return 0 }
