package perdure

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"regexp"
	"sync"
)

// executableBuild returns the name of the running executable's build, which is computed once. Two
// builds of the same sources may have one name, builds of other sources have not.
var executableBuild = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return unknownBuild
	}
	f, err := os.Open(path)
	if err != nil {
		return unknownBuild
	}
	defer f.Close()
	return buildOf(f)
})

const unknownBuild = "unknown"

// buildOf returns the name of an executable's build. The whole file is read only if it has no Go
// build ID: to read a large file takes longer than many a command.
func buildOf(f io.ReadSeeker) string {
	head := make([]byte, idWithin)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF {
		return unknownBuild
	}
	h := sha256.New()
	if id := buildID(head[:n]); id != nil {
		h.Write(id)
	} else if _, err := f.Seek(0, io.SeekStart); err != nil {
		return unknownBuild
	} else if _, err := io.Copy(h, f); err != nil {
		return unknownBuild
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Where the linker of Go puts the build ID: into a note if the executable is an ELF file, else into
// the beginning of the code. See cmd/internal/buildid.
const (
	idWithin = 64 << 10
	idInCode = "\xff Go build ID: \""
	idInNote = "\x04\x00\x00\x00Go\x00\x00" // the type of the note and its name
)

// goID matches the build IDs of the go command: hashes of the inputs and of the result.
var goID = regexp.MustCompile(`^[\w-]{20}(/[\w-]{20}){3}$`)

// buildID returns the build ID that the head of an executable has; nil if there is none that the
// go command has made. Other tools write the same word into each of their executables.
func buildID(head []byte) []byte {
	var id []byte
	if _, rest, found := bytes.Cut(head, []byte(idInCode)); found {
		id, _, _ = bytes.Cut(rest, []byte{'"'})
	} else if at := bytes.Index(head, []byte(idInNote)); at >= 4 {
		size, rest := binary.LittleEndian.Uint32(head[at-4:]), head[at+len(idInNote):]
		id = rest[:min(int64(size), int64(len(rest)))]
	}
	if !goID.Match(id) {
		return nil
	}
	return id
}
