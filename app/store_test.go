package app

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/script"
)

const secret = script.Secret

// refusedPlace is [script.RefusedStore] for the shop.
func refusedPlace(t *testing.T, url string, code int, message, hint string, lines ...string) {
	t.Helper()
	script.RefusedStore(t, func(args ...string) script.Result {
		r := shop(t.Context(), t, args...)
		return script.Result{Code: r.code, Stdout: r.stdout, Stderr: r.stderr}
	}, url, code, message, hint, lines...)
}

func TestWhatIsNoStoreIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	all := []string{"runs list", "start greet", "db migrate", "serve --log off", "workers list"}
	for _, c := range []struct{ url, message string }{
		{"postgres://ada:" + secret + "@host:port/shop", "it is no URL"},
		{"postgres://ada:s/" + secret + "@host/shop", "it is no URL"},
		{"postgresql://ada:" + secret + "@host/shop?%zz", "cannot be read"},
		{"postgres://ada:" + secret + "@host/shop?lease=soon", "its lease is soon"},
		{"postgres://ada:" + secret + "@host/shop?pooler=perhaps", "its pooler is perhaps"},
		{"mysql://ada:" + secret + "@host/shop", "there is no store mysql"},
		{"host=db user=ada password=" + secret, "it is a list of settings"},
		{"memory:", "nothing in memory outlives a command"},
		{"sqlite:", "the file has no name"},
	} {
		t.Run(c.url, func(t *testing.T) {
			refusedPlace(t, c.url, exitUsage, c.message, "PERDURE_STORE", all...)
		})
	}
	for url, message := range map[string]string{
		"postgres://ada:" + secret +
			"@127.0.0.1:1/shop?sslmode=disable": "no server at 127.0.0.1:1: connection refused",
		"postgres://ada:" + secret + "@no.such.host.invalid/shop": "there is no host " +
			"no.such.host.invalid",
	} {
		refusedPlace(t, url, exitUnreachable, "open "+strings.Replace(url, secret, "***", 1)+": "+
			message, "PERDURE_STORE", all...)
	}
}
