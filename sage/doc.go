// Package sage holds the packages of the Sage language, which build on each
// other: source and diag; syntax; types and library; check; load; host, llm and
// tools; eval; run; and, for people who write programs, format, lsp and test.
//
// They know nothing of the daemon. What a running program needs comes through
// host.Host, what a project says through load.Projects.
package sage
