package ability

import "strings"

// Kind of an image, by how its name is written.
type Kind int

// The kinds.
const (
	NoImage Kind = iota
	RegistryImage
	LayoutImage // oci:DIR
	TarImage    // tar:FILE
)

// KindOf takes an image's name apart: its kind, and the reference, folder or file.
func KindOf(image string) (Kind, string) {
	if image == "" {
		return NoImage, ""
	}
	if dir, ok := strings.CutPrefix(image, "oci:"); ok {
		return LayoutImage, dir
	}
	if file, ok := strings.CutPrefix(image, "tar:"); ok {
		return TarImage, file
	}
	return RegistryImage, image
}
