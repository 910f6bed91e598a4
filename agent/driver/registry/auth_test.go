package registry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, text string) Auth {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Auth(path)
}

func TestFor(t *testing.T) {
	a := write(t, `{"auths": {
		"https://index.docker.io/v1/": {"auth": "aHViOnB3Og=="},
		"ghcr.io": {"identitytoken": "tok"},
		"registry.example:5000": {"username": "u", "password": "p"},
		"empty.example": {}
	}, "HttpHeaders": {"User-Agent": "x"}}`)
	if err := a.Check(); err != nil {
		t.Error(err)
	}
	for host, want := range map[string][2]string{
		"registry-1.docker.io":  {"hub", "pw:"},
		"ghcr.io":               {"", "tok"},
		"registry.example:5000": {"u", "p"},
		"registry.example":      {},
		"empty.example":         {},
		"io":                    {},
	} {
		if user, secret, err := a.For(host); err != nil || user != want[0] || secret != want[1] {
			t.Errorf("%s: %q, %q, %v", host, user, secret, err)
		}
	}
	if user, secret, err := Auth("").For("ghcr.io"); user != "" || secret != "" || err != nil {
		t.Errorf("of no file: %q, %q, %v", user, secret, err)
	}
}

func TestCheckRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"auths": `:                                    "unexpected end",
		`{"credsStore": "pass"}`:                        "credsStore",
		`{"credHelpers": {"x.example": "ecr"}}`:         "credHelpers",
		`{"auths": {"x.example": {"auth": "%"}}}`:       "x.example",
		`{"auths": {"quay.io/team": {"auth": "YTpi"}}}`: "quay.io/team",
	} {
		if err := write(t, text).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	missing := Auth(filepath.Join(t.TempDir(), "missing"))
	if _, _, err := missing.For("x.example"); err == nil || os.IsNotExist(err) || missing.Check() == nil {
		t.Errorf("of a missing file: %v", err)
	}
	if err := Auth("").Check(); err != nil {
		t.Error(err)
	}
}
