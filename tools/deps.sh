#!/bin/sh
# Sees to it that the programs are there that the tests run against: on Debian
# and its relatives by installing them, elsewhere by saying what is missing.
# With CI=true a program that is missing afterwards is an error.
set -eu
cd "$(dirname "$0")/.."

# program:Debian package
needed="git:git erl:erlang-base tmux:tmux node:nodejs npm:npm"

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

# The client of the Model Context Protocol that is not ours, in a directory that
# git ignores. A copy of what was asked for is beside it once it is whole.
client=.cache/mcpclient
if ! cmp -s tools/mcpclient/package.json "$client/installed.json"; then
	echo "installing the reference client of the Model Context Protocol"
	rm -rf "$client"
	mkdir -p "$client"
	cp tools/mcpclient/package.json "$client/"
	if npm install --prefix "$client" --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error >/dev/null; then
		cp tools/mcpclient/package.json "$client/installed.json"
	else
		left="$left @modelcontextprotocol/sdk"
	fi
fi

[ -n "$left" ] || exit 0
echo "Not installed:$left. The tests that need them are skipped." >&2
echo "Install them with your package manager, such as: brew install erlang git tmux node" >&2
[ "${CI:-}" != true ] || exit 1
