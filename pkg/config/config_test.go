package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

type values struct {
	address string
	wait    time.Duration
	list    []string
	on      bool
	node    string // of one call only, no setting
}

func newFlags() (*pflag.FlagSet, *values) {
	v := &values{}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.StringVar(&v.address, "address", "default", "where")
	flags.DurationVar(&v.wait, "drain-wait", time.Second, "how long")
	flags.StringSliceVar(&v.list, "etcd", nil, "members")
	flags.BoolVar(&v.on, "on", false, "whether")
	flags.StringVar(&v.node, "node", "", "which")
	Settings(flags, "address", "drain-wait", "etcd", "on")
	return flags, v
}

func known() []string { return []string{"address", "drain-wait", "etcd", "on", "of-another-command"} }

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestApply(t *testing.T) {
	for name, c := range map[string]struct {
		args, env []string
		file      string
		want      values
	}{
		"defaults": {want: values{address: "default", wait: time.Second}},
		"file": {file: "address: file\ndrain-wait: 2m\netcd: [a, b]\non: true\nof-another-command: x\n",
			want: values{address: "file", wait: 2 * time.Minute, list: []string{"a", "b"}, on: true}},
		"environment over file": {env: []string{"OHM_ADDRESS=env", "OHM_DRAIN_WAIT=3s", "OHM_ETCD=c,d", "OHM_ON=true"}, file: "address: file\netcd: [a]\n",
			want: values{address: "env", wait: 3 * time.Second, list: []string{"c", "d"}, on: true}},
		"flag over both": {args: []string{"--address=flag", "--etcd=e"}, env: []string{"OHM_ADDRESS=env"}, file: "address: file\netcd: [a]\n",
			want: values{address: "flag", wait: time.Second, list: []string{"e"}}},
		"a flag equal to its default is still a flag": {args: []string{"--address=default"}, env: []string{"OHM_ADDRESS=env"},
			want: values{address: "default", wait: time.Second}},
		"the last variable counts":       {env: []string{"OHM_ADDRESS=a", "OHM_ADDRESS=b"}, want: values{address: "b", wait: time.Second}},
		"an empty variable is none":      {env: []string{"OHM_ADDRESS="}, file: "address: file\n", want: values{address: "file", wait: time.Second}},
		"no setting, no variable":        {env: []string{"OHM_NODE=n7"}, want: values{address: "default", wait: time.Second}},
		"a number in the file for text":  {file: "address: 7400\n", want: values{address: "7400", wait: time.Second}},
		"an empty file says nothing":     {file: "# nothing\n", want: values{address: "default", wait: time.Second}},
		"a dot in a value stays a value": {file: "address: a.b:1\n", want: values{address: "a.b:1", wait: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			flags, got := newFlags()
			if err := flags.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			file := ""
			if c.file != "" {
				file = write(t, c.file)
			}
			if err := Apply(flags, c.env, file, known()); err != nil {
				t.Fatal(err)
			}
			if got.address != c.want.address || got.wait != c.want.wait || strings.Join(got.list, " ") != strings.Join(c.want.list, " ") || got.on != c.want.on || got.node != "" {
				t.Errorf("got %+v, want %+v", *got, c.want)
			}
			if f := flags.Lookup("address"); f.Changed != (len(c.args) > 0) {
				t.Errorf("changed is %v after %v: it is for the command line only", f.Changed, c.args)
			}
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	for name, c := range map[string]struct {
		env        []string
		file, want string
	}{
		"unknown key":            {file: write(t, "adress: x\n"), want: `there is no setting "adress"`},
		"a flag that is none":    {file: write(t, "node: n7\n"), want: `there is no setting "node"`},
		"no YAML":                {file: write(t, "address: [\n"), want: "config.yaml: "},
		"a bad value":            {file: write(t, "drain-wait: soon\n"), want: `config.yaml: drain-wait: "soon": `},
		"a bad variable":         {env: []string{"OHM_DRAIN_WAIT=soon"}, want: `OHM_DRAIN_WAIT: "soon": `},
		"a file that is missing": {file: missing, want: missing + " cannot be read"},
		"the same by variable":   {env: []string{"OHM_CONFIG=" + missing}, want: missing + " cannot be read"},
	} {
		flags, _ := newFlags()
		if err := Apply(flags, c.env, c.file, known()); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestUsualFile(t *testing.T) {
	home := t.TempDir()
	for i, env := range [][]string{{"HOME=" + home}, {"HOME=/nowhere", "XDG_CONFIG_HOME=" + filepath.Join(home, "xdg")}} {
		flags, got := newFlags()
		if err := Apply(flags, env, "", known()); err != nil || got.address != "default" {
			t.Errorf("without a file: %v, %+v", err, got)
		}
		file := Path(env)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("address: usual\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		flags, got = newFlags()
		if err := Apply(flags, env, "", known()); err != nil || got.address != "usual" {
			t.Errorf("%d: with %s: %v, %+v", i, file, err, got)
		}
	}
}

func TestSettings(t *testing.T) {
	flags, _ := newFlags()
	Settings(flags, "address", "not-there") // twice does no harm
	if f := flags.Lookup("address"); !IsSetting(f) || f.Usage != "where [OHM_ADDRESS]" {
		t.Errorf("got %+v", f)
	}
	if f := flags.Lookup("node"); IsSetting(f) || f.Usage != "which" {
		t.Errorf("got %+v", f)
	}
	if got := Variable("token-file"); got != "OHM_TOKEN_FILE" {
		t.Errorf("got %s", got)
	}
}

func TestClientFlags(t *testing.T) {
	var c Client
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Flags(flags)
	if err := flags.Parse([]string{"-n", "vision"}); err != nil {
		t.Fatal(err)
	}
	if err := Apply(flags, []string{"OHM_TLS_CA=ca.pem"}, "", []string{}); err != nil {
		t.Fatal(err)
	}
	if want := (Client{Address: DefaultAddress, Namespace: "vision", TLSCA: "ca.pem"}); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
}
