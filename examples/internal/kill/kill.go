// Package kill has a program do its work in a process of its own, which is killed again
// and again.
package kill

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
)

// Again starts this program with args as often as there are numbers in after, and once
// more, one process after the other. Each tells of its work by lines on standard output;
// seen is given each line and says how much is done in all. A process is killed, as by
// kill -9, when as much is done as its number says, and the last one when all is.
func Again(args []string, after []int, all int, seen func(line string) (done int)) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	done := 0
	for _, n := range append(after[:len(after):len(after)], all) {
		worker := exec.Command(program, args...)
		worker.Stderr = os.Stderr
		out, err := worker.StdoutPipe()
		if err == nil {
			err = worker.Start()
		}
		if err != nil {
			return err
		}
		for lines := bufio.NewScanner(out); done < n && lines.Scan(); {
			done = seen(lines.Text())
		}
		_ = worker.Process.Kill()
		_ = worker.Wait() // it was killed
		if done < n {
			return errors.New("a worker ended by itself")
		}
	}
	return nil
}
