#!/usr/bin/env bash
# Makes an image of Debian's busybox-static, an OCI layout in a tar, for examples and tests:
#   hack/busybox-image.sh /tmp/busybox.tar
set -euo pipefail
to=${1:?where to put the tar}
busybox=${BUSYBOX:-/bin/busybox}
[ -x "$busybox" ] || { echo "no $busybox: apt-get install busybox-static" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/root/bin" "$work/root/tmp" "$work/root/etc" "$work/root/root" "$work/image/blobs/sha256"
chmod 1777 "$work/root/tmp"
cp "$busybox" "$work/root/bin/busybox"
for applet in $("$busybox" --list); do
	[ "$applet" = busybox ] || ln -s busybox "$work/root/bin/$applet"
done
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$work/root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$work/root/etc/group"

# blob moves a file to where its digest names it, and prints that and the size.
blob() {
	local sum
	sum=$(sha256sum "$1" | cut -d' ' -f1)
	mv "$1" "$work/image/blobs/sha256/$sum"
	printf '"digest":"sha256:%s","size":%d' "$sum" "$(stat -c %s "$work/image/blobs/sha256/$sum")"
}

case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$work/root" -cf "$work/layer" .
diff=$(sha256sum "$work/layer" | cut -d' ' -f1)
layer=$(blob "$work/layer")
printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/bin"],"Cmd":["sh"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
	"$arch" "$diff" >"$work/config"
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json",%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar",%s}]}' \
	"$(blob "$work/config")" "$layer" >"$work/manifest"
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",%s}]}' \
	"$(blob "$work/manifest")" >"$work/image/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$work/image/oci-layout"
tar -C "$work/image" -cf "$work/image.tar" .
mv "$work/image.tar" "$to"
