package webhook

import (
	"net/http"
	"strconv"
	"strings"
)

// methods are what a [Handler] answers.
const methods = "OPTIONS, POST"

// shake answers OPTIONS, by which a sender asks whether it may deliver. It never calls the sender
// back (WebHook-Request-Callback): that would be a way to have it send requests anywhere.
func (h *Handler) shake(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", methods)
	if origin := h.allowed(r.Header.Get("WebHook-Request-Origin")); origin != "" {
		rate := "*"
		if h.Rate > 0 {
			rate = strconv.Itoa(h.Rate)
		}
		w.Header().Set("WebHook-Allowed-Origin", origin)
		w.Header().Set("WebHook-Allowed-Rate", rate)
	}
	w.WriteHeader(http.StatusNoContent)
}

// allowed returns what is answered to an origin; empty if it is not allowed.
func (h *Handler) allowed(origin string) string {
	if origin == "" {
		return ""
	}
	for _, o := range h.Origins {
		if o == "*" {
			return o
		}
		if strings.EqualFold(o, origin) {
			return origin
		}
	}
	return ""
}
