package ui_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/store/postgres"
)

// nodeEnv names the variable with the database on which the test binary is a node until it is
// killed, and runEnv the one with the workflow ID of the run that it begins.
const (
	nodeEnv = "PERDURE_TEST_NODE"
	runEnv  = "PERDURE_TEST_RUN"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(nodeEnv); url != "" {
		fmt.Println(beNode(url))
		os.Exit(1)
	}
	if os.Getenv(devEnv) != "" {
		app.Main()
	}
	code := m.Run()
	endProcess()
	os.Exit(code)
}

// holding is the line that a node writes when it executes the step of its run.
const holding = "holding"

// held has a step that does not end on a node that is to be killed.
var held = perdure.Define("held", func(ctx context.Context, _ string) (string, error) {
	first, err := perdure.Step(ctx, "prepare", func(context.Context) (string, error) {
		return "prepared", nil
	})
	if err != nil {
		return "", err
	}
	return perdure.Step(ctx, "hold", func(ctx context.Context) (string, error) {
		if os.Getenv(nodeEnv) != "" {
			fmt.Println(holding)
			<-ctx.Done()
		}
		return first + " and done", ctx.Err()
	})
})

// shared opens the database of several nodes.
func shared(url string) (*postgres.Store, error) {
	return postgres.OpenWith(context.Background(), url, postgres.Options{Lease: 2 * time.Second})
}

// beNode executes runs until it is killed.
func beNode(url string) error {
	db, err := shared(url)
	if err != nil {
		return err
	}
	engine, err := perdure.New(db, perdure.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := engine.Register(definitions()...); err != nil {
		return err
	}
	ctx := context.Background()
	go func() {
		if _, err := held.Start(ctx, engine, "", perdure.ID(os.Getenv(runEnv))); err != nil {
			fmt.Println(err)
		}
	}()
	return engine.Run(ctx)
}

// node starts a node that executes a run of held, and returns when it does.
func node(t *testing.T, url, run string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), nodeEnv+"="+url, runEnv+"="+run)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(t, cmd) })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != holding {
		t.Fatalf("a node says %q", lines.Text())
	}
	return cmd
}

// kill kills a node that may have been killed already.
func kill(t *testing.T, node *exec.Cmd) {
	t.Helper()
	if node.ProcessState != nil {
		return
	}
	if err := node.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = node.Wait() // it says that the node was killed
}

// The run of a node that is killed goes on while somebody looks at it, and does not repeat the step
// that had ended. Meanwhile each action works.
//
// spec: B-17, B-16
func TestActionsWhileNodesAreKilled(t *testing.T) {
	url := testpg.URL(t)
	db, err := shared(url)
	if err != nil {
		t.Fatal(err)
	}
	b := browse(beginOn(t, db, ""))
	first := node(t, url, "held-0")
	b.open("runs/held-0")
	b.sees("executes it.")
	kill(t, first)
	b.sees("It has ended well.")
	b.sees("prepared and done")
	b.sees("its engine has died once")

	nodes := 0
	b.actsOnRuns(func() {
		nodes++
		kill(t, node(t, url, fmt.Sprint("held-", nodes)))
	})
	for i := range nodes {
		b.open(fmt.Sprint("runs/held-", i+1))
		b.sees("It has ended well.")
	}
}
