package alert

import (
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/failure"
)

const (
	mostRecipient = 2000
	mailScheme    = "mailto:"
)

// mailAddress returns the address of a recipient by mail.
func mailAddress(to string) (address string, is bool) { return strings.CutPrefix(to, mailScheme) }

// checkRecipient refuses a recipient that is neither a webhook nor a mail address. It does not look
// at the address that a name has: that is done when it is dialled.
func checkRecipient(to string) error {
	wrong := ""
	switch address, isMail := mailAddress(to); {
	case len(to) > mostRecipient:
		wrong = "it has more than " + strconv.Itoa(mostRecipient) + " bytes"
	case !utf8.ValidString(to) || strings.ContainsFunc(to, func(r rune) bool {
		return r <= ' ' || r == 0x7f
	}):
		wrong = "it has spaces, control characters or invalid UTF-8"
	case isMail:
		wrong = wrongAddress(address)
	default:
		wrong = wrongURL(to)
	}
	if wrong == "" {
		return nil
	}
	e := failure.Invalid("", "recipient %s is not valid: %s", failure.Quoted(to), wrong)
	e.Hint = "allowed are https://HOST/PATH and mailto:USER@HOST"
	return e
}

func wrongAddress(address string) string {
	a, err := mail.ParseAddress(address)
	switch {
	case err != nil || a.Address != address: // it has a name, comments or quotes
		return "it is no mail address"
	case strings.ContainsAny(address, "?%"):
		return "a mail address has no parameters here"
	}
	return ""
}

// barred are the ports above 1023 of servers that are no webhooks.
var barred = []uint64{
	1433, 1521, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 4222, 5432, 5672, 5900, 5984, 6000, 6379,
	6443, 6667, 7001, 9042, 9092, 9200, 9300, 10250, 11211, 27017,
}

func wrongURL(to string) string {
	u, err := url.Parse(to)
	switch {
	case err != nil:
		return "it is no URL"
	case u.Scheme != "https" && u.Scheme != "http":
		return "its scheme is neither https nor mailto"
	case u.User != nil:
		return "it has a user; the receiver knows the sender by the signature"
	case strings.Contains(to, "#") || strings.Contains(to, `\`):
		return "it has a fragment or a backslash"
	}
	return wrongHost(u.Hostname(), u.Port(), strings.HasSuffix(u.Host, ":"))
}

func wrongHost(host, port string, empty bool) string {
	if _, err := netip.ParseAddr(host); err != nil {
		last := host[strings.LastIndexByte(strings.TrimSuffix(host, "."), '.')+1:]
		isName := func(r rune) bool {
			return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
				r == '-' || r == '.' || r == '_'
		}
		switch {
		case host == "" || strings.ContainsFunc(host, func(r rune) bool { return !isName(r) }):
			return "its host is no name of A-Z a-z 0-9 . - and no IP address"
		case last[0] >= '0' && last[0] <= '9':
			return "its host is a number and no IP address"
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if empty || port != "" && (err != nil || n != 80 && n != 443 && n < 1024 ||
		slices.Contains(barred, n)) {
		return "its port is not allowed: allowed are 80, 443, and those above 1023 that are not " +
			"of databases and the like"
	}
	return ""
}
