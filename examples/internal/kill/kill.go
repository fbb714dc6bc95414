// Package kill runs a program in a child process, and kills the process again and again.
package kill

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
)

// Again starts this program with args, one process after the other: one process for each
// number in after, and a last one. A process reports its work in lines on standard output.
// Again calls seen with each line; seen returns how much work is done in total. Again kills
// a process, as kill -9 does, when its number is reached, and the last process when the
// total is all.
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
