// Command protogen generates the Go code of proto/ohm/v1 with the plugins pinned
// in go.mod, so that no protoc has to be installed. Run it from the module's root.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	paths, err := filepath.Glob("proto/ohm/v1/*.proto")
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("no proto files below proto/ohm/v1 (%v): run from the module's root", err)
	}
	for i, p := range paths {
		paths[i] = strings.TrimPrefix(p, "proto/")
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{"proto"}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments go into the generated code
	}
	files, err := compiler.Compile(context.Background(), paths...)
	if err != nil {
		return err
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc", "protoc-gen-go-vtproto"} {
		if err := generate(plugin, paths, files); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

func generate(plugin string, paths []string, files linker.Files) error {
	param := "module=github.com/ohmcell/ohm"
	if plugin == "protoc-gen-go-vtproto" { // fast codecs, for what is stored and for agents' sessions
		param += ",features=marshal+unmarshal+unmarshal_unsafe+size"
		paths = []string{"ohm/v1/records.proto", "ohm/v1/jobs.proto", "ohm/v1/nodes.proto"}
	}
	req := &pluginpb.CodeGeneratorRequest{FileToGenerate: paths, Parameter: &param, ProtoFile: inOrder(files)}
	in, err := proto.Marshal(req)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var resp pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &resp); err != nil {
		return err
	}
	if resp.Error != nil {
		return fmt.Errorf("%s", resp.GetError())
	}
	for _, f := range resp.File {
		if err := os.WriteFile(f.GetName(), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// inOrder lists every file after the files that it imports, as plugins expect.
func inOrder(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var out []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		out = append(out, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, f := range files {
		add(f)
	}
	return out
}
