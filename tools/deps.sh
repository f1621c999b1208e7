#!/bin/sh
# Sees to it that the programs are there that the tests run against: on Debian
# and its relatives by installing them, elsewhere by saying what is missing.
# With CI=true a program that is missing afterwards is an error.
set -eu

# program:Debian package
needed="git:git erl:erlang-base tmux:tmux"

missing=""
for pair in $needed; do
	command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing $pair"
done
[ -n "$missing" ] || exit 0

if command -v apt-get >/dev/null 2>&1; then
	sudo=""
	[ "$(id -u)" = 0 ] || sudo="sudo"
	packages=""
	for pair in $missing; do packages="$packages ${pair##*:}"; done
	echo "installing$packages"
	export DEBIAN_FRONTEND=noninteractive
	{ $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends $packages >/dev/null; } || true
fi

left=""
for pair in $missing; do
	command -v "${pair%%:*}" >/dev/null 2>&1 || left="$left ${pair%%:*}"
done
[ -n "$left" ] || exit 0
echo "Not installed:$left. The tests that need them are skipped." >&2
echo "Install them with your package manager, such as: brew install erlang git tmux" >&2
[ "${CI:-}" != true ] || exit 1
