package testpg

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// install puts programs that do nothing into a folder, and returns the folder.
func install(t *testing.T, dir string, programs ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if err := os.WriteFile(filepath.Join(dir, p), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPostgreSQLIsFoundOnPathThenInTheFoldersOfPackagesNewestFirst(t *testing.T) {
	root := t.TempDir()
	all := []string{"postgres", "initdb", "psql"}
	install(t, filepath.Join(root, "usr/9.6/bin"), all...)
	t.Setenv(Env, "")
	newest := install(t, filepath.Join(root, "usr/15/bin"), all...)
	install(t, filepath.Join(root, "usr/17/bin"), "postgres", "psql")
	pathed := install(t, filepath.Join(root, "path"), all...)
	links := install(t, filepath.Join(root, "links"))
	for _, p := range []string{"postgres", "initdb"} {
		if err := os.Symlink(filepath.Join(newest, p), filepath.Join(links, p)); err != nil {
			t.Fatal(err)
		}
	}
	folders := []string{filepath.Join(root, "none/*/bin"), filepath.Join(root, "usr/*/bin")}
	for path, want := range map[string]string{
		"":     newest, // 17 has only the client
		pathed: pathed,
		links:  newest, // psql is beside the target of the link
	} {
		t.Setenv("PATH", path)
		got, err := findTools(folders)
		if want := (tools{
			filepath.Join(want, "postgres"), filepath.Join(want, "initdb"),
			filepath.Join(want, "psql"),
		}); got != want || err != nil {
			t.Errorf("with PATH=%s: %v, %v; want %v", path, got, err, want)
		}
	}
}

func TestNoPostgreSQLIsFoundWhereTheVariableSaysSo(t *testing.T) {
	root := t.TempDir()
	install(t, root, "postgres", "initdb", "psql")
	t.Setenv("PATH", root)
	t.Setenv(Env, None)
	_, err := findTools(nil)
	var missing errMissing
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), Env) {
		t.Errorf("not a reason to skip that names %s: %v", Env, err)
	}
}

func TestWithoutPostgreSQLATestIsSkippedAndSaysWhatWasLookedFor(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(Env, "")
	_, err := findTools([]string{"/nowhere/*/bin"})
	var missing errMissing
	if !errors.As(err, &missing) {
		t.Fatalf("not a reason to skip: %v", err)
	}
	for _, want := range []string{"postgres", "initdb", "psql", "PATH", "/nowhere/*/bin", Env} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %s", err, want)
		}
	}
	t.Run("inner", func(t *testing.T) {
		defer func() {
			if !t.Skipped() {
				t.Error("the test was not skipped")
			}
		}()
		need(t, err)
	})
}

func TestAnotherServerIsUsedWhereItIsNamed(t *testing.T) {
	other := Start(t)
	at := other.URL()
	t.Setenv(Env, strings.Replace(at, "?", "?application_name=mine&", 1))
	var inner string
	t.Run("inner", func(t *testing.T) {
		inner = URL(t)
		host, _ := splitURL(t, inner)
		if host != other.Addr() || !strings.Contains(inner, "application_name=mine") {
			t.Errorf("%s is not a database on %s", inner, at)
		}
		ask(t, inner, "create table things (id int)")
	})
	if _, err := query(t, inner, "select 1"); err == nil {
		t.Errorf("%s is left", inner)
	}
	ask(t, at, "select 1")
}

func TestTheNameOfAServerMustBeAURL(t *testing.T) {
	for _, at := range []string{"host=localhost user=x", "mysql://x@y/z", "postgres://%zz"} {
		if got, err := withDatabase(at, "x"); err == nil {
			t.Errorf("%s gives %s", at, got)
		} else if !strings.Contains(err.Error(), Env) {
			t.Errorf("%v does not say %s", err, Env)
		}
	}
}
