package alerts_test

import (
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/docs/howto/alerts"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

func TestAnEngineNeedsAMailServerToAlertByMail(t *testing.T) {
	eng, err := perdure.New(memory.New(), perdure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PERDURE_SMTP", "")
	if err := alerts.Register(eng, []byte("secret")); journal.CodeOf(err) != journal.CodeInvalid {
		t.Error(err)
	}
	t.Setenv("PERDURE_SMTP", "smtp://localhost?from=perdure@example.com")
	if err := alerts.Register(eng, []byte("secret")); err != nil {
		t.Error(err)
	}
}
