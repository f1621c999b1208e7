#!/bin/sh
# Sees to it that the programs are there that the tests run against: on Debian
# and its relatives by installing them, elsewhere by saying what is missing.
# With CI=true a program that is missing afterwards is an error.
set -eu
cd "$(dirname "$0")/.."

# program:Debian package
needed="git:git erl:erlang-base tmux:tmux node:nodejs npm:npm patch:patch chromium:chromium systemd-notify:systemd"

missing() {
	for pair in $needed; do
		command -v "${pair%%:*}" >/dev/null 2>&1 || printf ' %s' "$pair"
	done
}

packages=""
for pair in $(missing); do packages="$packages ${pair##*:}"; done
if [ -n "$packages" ] && command -v apt-get >/dev/null 2>&1; then
	sudo=""
	[ "$(id -u)" = 0 ] || sudo="sudo"
	echo "installing$packages"
	export DEBIAN_FRONTEND=noninteractive
	{ $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends $packages >/dev/null; } || true
fi

left=""
for pair in $(missing); do left="$left ${pair%%:*}"; done

# install FROM NAME puts the npm packages that FROM/package.json asks for into
# .cache/NAME, which git ignores. A copy of what was asked for is next to them
# once they are whole.
install() {
	into=.cache/$2
	! cmp -s "$1/package.json" "$into/installed.json" || return 0
	echo "installing the packages of $1"
	rm -rf "$into"
	mkdir -p "$into"
	cp "$1/package.json" "$into/"
	if npm install --prefix "$into" --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error >/dev/null; then
		cp "$1/package.json" "$into/installed.json"
	else
		left="$left packages-of-$1"
	fi
}
install tools/mcpclient mcpclient      # the client of the Model Context Protocol that is not ours
install editors/vscode/test vscode     # what highlights in VS Code
install tools/lspclient lspclient      # the language client that editors are made of
install tools/axe axe                  # what finds pages that are hard to use with assistive technology
install tools/clis clis                # command lines of language models

# The server of etcd, which is no package of Debian in a version that is new enough: tools/etcd says which.
if ! cmp -s tools/etcd/go.mod .cache/etcd/installed.mod; then
	echo "building etcd"
	mkdir -p .cache/etcd
	if (cd tools/etcd && go build -o ../../.cache/etcd/etcd go.etcd.io/etcd/server/v3); then
		cp tools/etcd/go.mod .cache/etcd/installed.mod
	else
		left="$left etcd"
	fi
fi

[ -n "$left" ] || exit 0
echo "Not installed:$left. The tests that need them are skipped." >&2
echo "Install them with your package manager, such as: brew install erlang git tmux node gpatch" >&2
[ "${CI:-}" != true ] || exit 1
