#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install-files.sh install|uninstall BUILD DESTDIR PREFIX: copies what was built, or removes exactly that.
set -eu
[ $# -eq 4 ] || {
	echo "usage: install-files.sh install|uninstall BUILD DESTDIR PREFIX" >&2
	exit 2
}
cd "$(dirname "$0")/.."
action=$1
build=$2
prefix=$4
root=$3$prefix
doc=share/doc/sgpu

# Lines "mode, file to copy, where to below the prefix". Every name comes from the sources, so that uninstall knows
# them without a build.
list() {
	for main in tools/sgpu/main.c tools/sgpu-*/main.c; do
		[ -e "$main" ] || continue
		tool=$(basename "$(dirname "$main")")
		echo "755 $build/bin/$tool bin/$tool"
		echo "644 $build/completions/bash/$tool share/bash-completion/completions/$tool"
		echo "644 $build/completions/zsh/_$tool share/zsh/site-functions/_$tool"
		echo "644 $build/completions/fish/$tool.fish share/fish/vendor_completions.d/$tool.fish"
	done
	# The CUDA device, where it was built.
	if [ "$action" = uninstall ] || [ -e "$build/lib/sgpu/sgpu-cuda.so" ]; then
		echo "755 $build/lib/sgpu/sgpu-cuda.so lib/sgpu/sgpu-cuda.so"
	fi
	echo "644 $build/libsgpu.a lib/libsgpu.a"
	echo "644 $build/sgpu.pc lib/pkgconfig/sgpu.pc"
	for file in include/sgpu/*.h; do
		echo "644 $file $file"
	done
	for file in man/*.[157] "$build"/man/*.3; do
		[ ! -e "$file" ] || echo "644 $file share/man/man${file##*.}/$(basename "$file")"
	done
	echo "644 tools/sgpu-bench/results.schema.json share/sgpu/bench-results.schema.json"
	for file in README.md CHANGELOG.md SECURITY.md LICENSE docs/*.md docs/pictures/*.svg docs/pictures/*.png; do
		[ ! -e "$file" ] || echo "644 $file $doc/${file#docs/}"
	done
	for file in systemd/*; do
		echo "644 $file $doc/$file"
	done
	find examples -type f ! -name '.*' ! -name '*.pyc' | sort | while IFS= read -r file; do
		if [ -x "$file" ]; then mode=755; else mode=644; fi
		echo "$mode $file $doc/$file"
	done
}

install_all() {
	list | while read -r mode from to; do
		install -D -m "$mode" "$from" "$root/$to" || exit 1
	done
	sed -i "s,=/usr/local/bin/,=$prefix/bin/," "$root/$doc/systemd/sgpu-serve.service"
	echo "installed in '$root': programs in bin, the library in lib, pages in share/man, documents in $doc"
}

# The folders that only this project fills go too, when nothing of another is in them.
uninstall_all() {
	list | while read -r mode from to; do
		rm -f "$root/$to"
	done
	find "$root/$doc" "$root/share/sgpu" "$root/include/sgpu" "$root/lib/sgpu" -depth -type d -empty -delete 2>/dev/null || true
}

case $action in
install) install_all ;;
uninstall) uninstall_all ;;
*)
	echo "install-files.sh: unknown action '$action'" >&2
	exit 2
	;;
esac
