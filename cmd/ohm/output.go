package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/pkg/config"
	"github.com/ohmcell/ohm/pkg/ohmjson"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

const outputAnnotation = "ohm_output"

// outputFlag gives a verb -o with these formats; the first is the default.
func outputFlag(cmd *cobra.Command, formats ...string) {
	cmd.Flags().StringP("output", "o", formats[0], "format: "+strings.Join(formats, ", "))
	cmd.Annotations = map[string]string{outputAnnotation: strings.Join(formats, " ")}
	config.Settings(cmd.Flags(), "output")
	// Only fails for a flag that there is not.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

func listFormats() []string { return []string{"table", "wide", "json", "yaml", "name"} }

// setOutput takes over the format. One that the verb does not have is refused if it
// was asked for in this call; as a general setting it gives way to the verb's default.
func (a *app) setOutput(cmd *cobra.Command) error {
	formats := strings.Fields(cmd.Annotations[outputAnnotation])
	flag := cmd.Flags().Lookup("output")
	if len(formats) == 0 || flag == nil {
		return nil
	}
	a.output = flag.Value.String()
	switch {
	case slices.Contains(formats, a.output):
		return nil
	case !flag.Changed && slices.Contains(listFormats(), a.output):
		a.output = formats[0]
		return nil
	}
	return refuse("`%s` has no output format %q; it has %s", cmd.CommandPath(), a.output, strings.Join(formats, ", "))
}

// view is one answer in all its formats.
type view struct {
	json  func() ([]byte, error)
	table func(p *printer)
	names func() []string
}

// one is the JSON of one message, many that of a list.
func one(m proto.Message) func() ([]byte, error) {
	return func() ([]byte, error) { return ohmjson.Marshal(m) }
}

func many[M proto.Message](list []M) func() ([]byte, error) {
	return func() ([]byte, error) { return ohmjson.MarshalList(list) }
}

// show prints v to stdout in the format that was asked for.
func (a *app) show(v view) error {
	switch a.output {
	case "json", "yaml":
		data, err := v.json()
		if err != nil {
			return err
		}
		return a.showJSON(data)
	case "name":
		for _, name := range v.names() {
			if err := a.println(plainText(name)); err != nil {
				return err
			}
		}
		return nil
	}
	p := &printer{app: a, wide: a.output == "wide"}
	v.table(p)
	return p.flush()
}

// showJSON prints a JSON document as JSON or YAML.
func (a *app) showJSON(data []byte) error {
	if a.output == "yaml" {
		text, err := ohmjson.YAML(data)
		if err != nil {
			return err
		}
		data = bytes.TrimSuffix(text, []byte("\n"))
	}
	return a.println(string(data))
}

// jsonText is the JSON of what is no API message.
func jsonText(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

func (a *app) println(line string) error {
	_, err := fmt.Fprintln(a.stdout, line)
	return err
}

// note tells people something that is no result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.stderr, plainText(fmt.Sprintf(format, args...)))
}
