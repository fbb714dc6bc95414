package serving

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure/app/internal/config"
	"github.com/perdure/perdure/server"
)

// What is not there is a problem document, wherever it is not.
//
// spec: P-10
func TestWhatIsSwitchedOffOrOutsideIsAProblem(t *testing.T) {
	h := below("/ops", false, switched(config.Switches{}, http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) {})))
	for path, hint := range map[string]string{
		"/ops/docs": "", "/ops/api/orchestration/executions": "switched off",
		"/ops/healthz": "switched off", "/ops/readyz": "switched off",
		"/ops/metrics": "switched off", "/healthz": "/ops/", "/": "/ops/", "/ops": "/ops/",
		"/opsx/docs": "/ops/", "/%6fps/docs": "/ops/",
	} {
		seen := httptest.NewRecorder()
		h.ServeHTTP(seen, httptest.NewRequest("GET", path, nil))
		if hint == "" {
			if seen.Code != http.StatusOK {
				t.Errorf("%s: %d %s", path, seen.Code, seen.Body)
			}
			continue
		}
		var p server.Problem
		err := json.Unmarshal(seen.Body.Bytes(), &p)
		if err != nil || seen.Code != 404 || p.Status != 404 || p.Code != "not_found" ||
			!strings.Contains(p.Hint, hint) ||
			seen.Header().Get("Content-Type") != "application/problem+json" ||
			seen.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v %s", path, seen.Code, seen.Header(), seen.Body)
		}
	}
}
