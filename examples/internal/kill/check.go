package kill

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
)

// Runs starts a run for each ID with its input, or finds the run. It prints the ID when the run has
// ended.
func Runs[I, O any](ctx context.Context, engine *perdure.Engine, w *perdure.Workflow[I, O],
	inputs map[string]I) error {
	var all sync.WaitGroup
	for id, in := range inputs {
		all.Go(func() {
			run, err := w.Start(ctx, engine, in, perdure.ID(id))
			if err == nil {
				_, err = run.Outcome(ctx)
			}
			if err != nil {
				log.Fatalln(err)
			}
			fmt.Println(id)
		})
	}
	all.Wait()
	return nil
}

// Checks are what a judge has found out: for each check, in words, the IDs for which it is false.
type Checks struct {
	names []string
	wrong map[string][]string
}

// That adds that a check is true or false for an ID.
func (c *Checks) That(check, id string, isTrue bool) {
	if !slices.Contains(c.names, check) {
		c.names = append(c.names, check)
	}
	if !isTrue {
		if c.wrong == nil {
			c.wrong = map[string][]string{}
		}
		c.wrong[check] = append(c.wrong[check], id)
	}
}

// Print prints each check. It returns an error if one of them is false.
func (c *Checks) Print() (err error) {
	for _, check := range c.names {
		if ids := c.wrong[check]; ids != nil {
			fmt.Printf("FALSE  %s: not for %s\n", check, strings.Join(ids, ", "))
			err = errors.New("a check is false")
			continue
		}
		fmt.Println("true  ", check)
	}
	return err
}
