// Package config fills in the settings of a command from its three sources: a flag
// wins over the environment, the environment over the configuration file.
//
// A setting is a flag that has been marked with Settings. The flag --data-dir is
// then also the variable OHM_DATA_DIR and the key data-dir of the file. Other flags
// belong to one call only (--all, --wait) and come from nowhere else; several of
// them share their name with a variable that every task has, such as OHM_NODE.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

const mark = "ohm_setting"

// Variable is the environment variable of the setting that a flag's name stands for.
func Variable(flag string) string {
	return "OHM_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Settings marks flags as settings and names their variables in their help.
func Settings(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if f := flags.Lookup(name); f != nil && !IsSetting(f) {
			f.Annotations = map[string][]string{mark: {name}}
			f.Usage += " [" + Variable(name) + "]"
		}
	}
}

// IsSetting says whether a flag has been marked.
func IsSetting(f *pflag.Flag) bool { return f.Annotations[mark] != nil }

// Path is where the configuration file is looked for unless one is named: below
// XDG_CONFIG_HOME or HOME of env; "" if there is neither.
func Path(env []string) string {
	if dir := lookup(env, "XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "ohm", "config.yaml")
	}
	if home := lookup(env, "HOME"); home != "" {
		return filepath.Join(home, ".config", "ohm", "config.yaml")
	}
	return ""
}

// Apply gives every setting among flags that was not on the command line its value
// from env ("OHM_NAME=value") or from the file; what is in neither keeps its
// default. file names the file, and must exist if it does; "" stands for
// OHM_CONFIG, then Path, which may be absent. known are the settings of all
// commands: a file may serve several, but a key that is none of them is an error.
func Apply(flags *pflag.FlagSet, env []string, file string, known []string) error {
	v := viper.NewWithOptions(viper.KeyDelimiter("\x00")) // keys are flat
	file, err := read(v, env, file)
	if err != nil {
		return err
	}
	for _, key := range v.AllKeys() {
		if !slices.Contains(known, key) {
			return fmt.Errorf("%s: there is no setting %q; there are %s", file, key, strings.Join(known, ", "))
		}
	}
	var variables = map[string]any{}
	flags.VisitAll(func(f *pflag.Flag) {
		if value := lookup(env, Variable(f.Name)); value != "" && IsSetting(f) {
			variables[f.Name] = value
		}
	})
	if err := v.MergeConfigMap(variables); err != nil {
		return err
	}
	var faults []error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || !IsSetting(f) || !v.InConfig(f.Name) {
			return
		}
		value := v.GetString(f.Name)
		if list, ok := v.Get(f.Name).([]any); ok {
			value = join(list)
		}
		if err := flags.Set(f.Name, value); err != nil {
			where := file + ": " + f.Name
			if _, ok := variables[f.Name]; ok {
				where = Variable(f.Name)
			}
			faults = append(faults, fmt.Errorf("%s: %q: %w", where, value, root(err)))
		}
		f.Changed = false // it did not come from the command line
	})
	return errors.Join(faults...)
}

// read loads the configuration file into v and returns its name.
func read(v *viper.Viper, env []string, file string) (string, error) {
	if file == "" {
		file = lookup(env, "OHM_CONFIG")
	}
	if file == "" {
		file = Path(env)
		if _, err := os.Stat(file); file == "" || errors.Is(err, fs.ErrNotExist) {
			return file, nil
		}
	}
	v.SetConfigFile(file)
	v.SetConfigType("yaml")
	if err := v.ReadInConfig(); err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			return file, fmt.Errorf("the configuration file %s cannot be read: %w", file, path.Err)
		}
		return file, fmt.Errorf("%s: %w", file, root(err))
	}
	return file, nil
}

func lookup(env []string, name string) string {
	for _, e := range slices.Backward(env) { // the last one counts, as in os/exec
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

func join(list []any) string {
	words := make([]string, len(list))
	for i, x := range list {
		words[i] = fmt.Sprint(x)
	}
	return strings.Join(words, ",")
}

// root is the innermost error: the frames around it repeat the flag and the value.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
