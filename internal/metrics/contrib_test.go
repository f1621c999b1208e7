package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	dto "github.com/prometheus/client_model/go"
)

// The page is current.
func TestPage(t *testing.T) {
	got, err := os.ReadFile("../../docs/metrics.md")
	if !bytes.Equal(got, Page()) {
		t.Errorf("docs/metrics.md is not current, run go generate ./internal/metrics; %v", err)
	}
}

// exported are the metrics of a daemon, with their labels.
func exported(t *testing.T) map[string][]string {
	all := map[string][]string{}
	for name, f := range scrape(t, full(t)) {
		all[name] = nil
		for _, l := range f.Metric[0].Label {
			all[name] = append(all[name], l.GetName())
		}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			all[name+"_bucket"] = append([]string{"le"}, all[name]...)
			all[name+"_sum"], all[name+"_count"] = all[name], all[name]
			delete(all, name)
		}
	}
	all["up"] = nil // of Prometheus itself
	return all
}

// Words of PromQL.
var (
	functions = strings.Fields("sum min max count avg topk rate increase changes time absent histogram_quantile")
	operators = strings.Fields("by without on ignoring group_left group_right and or unless bool offset")
	grouping  = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	selector  = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\})?`)
	matcher   = regexp.MustCompile(`^([a-z_]+)\s*(=|!=|=~|!~)\s*"((?:[^"\\]|\\.)*)"$`)
	label     = regexp.MustCompile(`^[a-z_]+$`)
	duration  = regexp.MustCompile(`\[(\d+[smhd]|\$__rate_interval|\$__range)\]`)
	numbers   = regexp.MustCompile(`\b\d+(\.\d+)?\b`)
	rest      = regexp.MustCompile(`^[\s()+*/,<>=-]*$`)
)

// checkQuery returns what is wrong with a query in the small part of PromQL that contrib/ uses: metrics and labels
// that are not exported, words that it does not know, and parentheses that are not closed.
func checkQuery(query string, known map[string][]string) (wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	left := duration.ReplaceAllString(query, "")
	var grouped, named []string
	left = grouping.ReplaceAllStringFunc(left, func(s string) string {
		for l := range strings.SplitSeq(grouping.FindStringSubmatch(s)[2], ",") {
			if l = strings.TrimSpace(l); l != "" {
				grouped = append(grouped, l)
			}
		}
		return ""
	})
	left = selector.ReplaceAllStringFunc(left, func(s string) string {
		parts := selector.FindStringSubmatch(s)
		name, matchers := parts[1], strings.Trim(parts[2], "{}")
		switch labels, ok := known[name]; {
		case ok:
			named = append(named, name)
			for m := range strings.SplitSeq(matchers, ",") {
				if m == "" {
					continue
				}
				parts := matcher.FindStringSubmatch(m)
				if parts == nil {
					fail("%s has the matcher %s", name, m)
				} else if !slices.Contains(append([]string{"instance", "job"}, labels...), parts[1]) {
					fail("%s has no label %s", name, parts[1])
				}
			}
		case parts[2] != "" || !slices.Contains(functions, name) && !slices.Contains(operators, name):
			fail("%s is not known", name)
		}
		return ""
	})
	if left = numbers.ReplaceAllString(left, ""); !rest.MatchString(left) {
		fail("%q is left", left)
	}
	if strings.Count(query, "(") != strings.Count(query, ")") {
		fail("a parenthesis is missing")
	}
	if named == nil {
		fail("it has no metric")
	}
	for _, l := range grouped {
		if !label.MatchString(l) || l != "instance" && l != "job" &&
			!slices.ContainsFunc(named, func(name string) bool { return slices.Contains(known[name], l) }) {
			fail("no metric in it has the label %s", l)
		}
	}
	return wrong
}

// The check finds what is wrong.
func TestCheckQuery(t *testing.T) {
	known := exported(t)
	for query, want := range map[string]string{
		`sum by (state) (coppice_agents{instance=~"$instance",state!="running"}) > 0`:                    "",
		`histogram_quantile(0.9, sum by (le) (rate(coppice_recovery_seconds_bucket[$__rate_interval])))`: "",
		`sum(coppice_agent)`: "coppice_agent is not known", `coppice_agents{agent="a"}`: "has no label agent",
		`sum by (agent) (coppice_agents)`: "no metric in it has the label agent", `coppice_recovery_seconds`: "not known",
		`sum(coppice_agents))`: "parenthesis", `summ(coppice_agents)`: "summ is not known", `1 + 2`: "no metric",
		`coppice_agents{state}`: "matcher", `rate(coppice_events_total[5x])`: "left",
	} {
		wrong := strings.Join(checkQuery(query, known), "; ")
		if want == "" && wrong != "" || !strings.Contains(wrong, want) {
			t.Errorf("%s: %s, want %s", query, wrong, want)
		}
	}
}

// The dashboard shows only what is exported, and its panels have places and ids of their own.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile("../../contrib/grafana/coppice.json")
	if err != nil {
		t.Fatal(err)
	}
	type place struct{ X, Y, W, H int }
	type target struct{ Expr, RefID, LegendFormat string }
	var board struct {
		Title, UID  string
		Annotations struct{ List []target }
		Templating  struct {
			List []struct{ Name, Type, Definition string }
		}
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     place
			Targets     []target
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	known, used := exported(t), map[string]bool{}
	check := func(where string, q target) {
		for _, wrong := range checkQuery(q.Expr, known) {
			t.Errorf("%s: %s: %s", where, q.Expr, wrong)
		}
		for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.LegendFormat, -1) {
			if !strings.Contains(q.Expr, m[1]) &&
				!slices.Contains(known[selector.FindStringSubmatch(q.Expr)[1]], m[1]) {
				t.Errorf("%s: the legend has the label %s", where, m[1])
			}
		}
		for _, m := range selector.FindAllStringSubmatch(q.Expr, -1) {
			used[m[1]] = true
		}
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range board.Panels {
		if p.ID == 0 || ids[p.ID] || p.Title == "" {
			t.Errorf("panel %q has the id %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x > 23 {
					t.Fatalf("panel %q is where %q is", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %q has %d queries", p.Title, len(p.Targets))
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if q.RefID == "" || refs[q.RefID] || !strings.Contains(q.Expr, `instance=~"$instance"`) {
				t.Errorf("panel %q: query %q: %s", p.Title, q.RefID, q.Expr)
			}
			refs[q.RefID] = true
			check(p.Title, q)
		}
	}
	for _, a := range board.Annotations.List {
		check("annotation", a)
	}
	var names []string
	for _, v := range board.Templating.List {
		names = append(names, v.Name)
		if v.Type != "query" {
			continue
		}
		m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Definition)
		if m == nil {
			t.Errorf("variable %s is %s", v.Name, v.Definition)
			continue
		}
		check(v.Name, target{Expr: m[1]})
		if name := selector.FindStringSubmatch(m[1])[1]; m[2] != "instance" && !slices.Contains(known[name], m[2]) {
			t.Errorf("variable %s: %s has no label %s", v.Name, name, m[2])
		}
	}
	if !slices.Equal(names, []string{"datasource", "project", "instance", "agent"}) {
		t.Errorf("variables: %v", names)
	}
	for _, m := range catalogue() { // one that no panel needs is named here
		if name := m.Name; !used[name] && !used[name+"_bucket"] && !slices.Contains([]string{
			"coppice_agent_start_timestamp_seconds", "coppice_agent_last_progress_timestamp_seconds",
			"coppice_supervisor_restarts_in_window", "coppice_supervisor_restarts_limit", "coppice_quota_open",
			"coppice_quota_retry_timestamp_seconds", "coppice_budget_reached"}, name) {
			t.Errorf("%s is in no panel", name)
		}
	}
}

// The rules ask only for what is exported.
func TestRules(t *testing.T) {
	data, err := os.ReadFile("../../contrib/prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalWithOptions(data, &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	known, seen := exported(t), map[string]bool{}
	for _, r := range file.Groups[0].Rules {
		if seen[r.Alert] || !strings.HasPrefix(r.Alert, "Coppice") || r.Annotations["summary"] == "" ||
			!slices.Contains([]string{"page", "warning"}, r.Labels["severity"]) {
			t.Errorf("rule %q: %+v", r.Alert, r)
		}
		seen[r.Alert] = true
		for _, wrong := range checkQuery(r.Expr, known) {
			t.Errorf("%s: %s", r.Alert, wrong)
		}
	}
	if len(seen) < 10 {
		t.Errorf("%d rules", len(seen))
	}
}
