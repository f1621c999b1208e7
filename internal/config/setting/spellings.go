package setting

// OtherSpellings returns those of a word that the reader takes, too.
func OtherSpellings(word string) []string {
	switch word {
	case "one_for_one":
		return []string{"OneForOne"}
	case "one_for_all":
		return []string{"OneForAll"}
	case "rest_for_one":
		return []string{"RestForOne"}
	case "always":
		return []string{"permanent", "Permanent"}
	case "on-failure":
		return []string{"transient", "Transient"}
	case "never":
		return []string{"temporary", "Temporary"}
	case "give_up":
		return []string{"give-up"}
	}
	return nil
}
