/* SPDX-License-Identifier: MIT */
/*
 * What the relay reports about mistakes in its configuration file. The folder bad_configs has one
 * file for each subject, with cases like this one:
 *
 *     === a queue that is a boolean [groups.g] queue = false --- f:2:9: groups.g.queue: is a
 *     boolean; expected an integer
 *
 * The first part is the file, called "f"; {{ff}} is a byte that cannot be written otherwise. The
 * second part is everything that --check prints about it. A line that ends with "..." continues
 * with the names of all keys of a table, or with a text of the TOML parser. A case whose title
 * begins with [tls] needs OpenSSL, and one with [pcre2] PCRE2.
 */
#include "base/regex.hpp"
#include "config/config.hpp"
#include "config/config_places.hpp"
#include "config/tls_contexts.hpp"
#include "tls/tls_context.hpp"

#include <gtest/gtest.h>

#include <charconv>
#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace
{

struct bad_config {
	std::string title;
	std::string text;
	std::vector<std::string> said;
};

/* Replaces {{ff}} and the like by the bytes for which they stand. */
std::string with_bytes(const std::string &written)
{
	std::string made;
	for (std::size_t at = 0; at < written.size();) {
		unsigned byte = 0;
		const char *const from = written.data() + at;
		if (written.compare(at, 2, "{{") == 0 && at + 6 <= written.size() &&
		    std::from_chars(from + 2, from + 4, byte, 16).ptr == from + 4 &&
		    written.compare(at + 4, 2, "}}") == 0) {
			made += static_cast<char>(byte);
			at += 6;
		} else {
			made += written[at++];
		}
	}
	return made;
}

std::vector<bad_config> read_cases(const std::string &name)
{
	std::ifstream in(std::string(RELAY_BAD_CONFIGS) + '/' + name + ".txt");
	EXPECT_TRUE(in.is_open()) << name;
	std::vector<bad_config> cases;
	bool is_file = true;
	for (std::string line; std::getline(in, line);) {
		if (line.starts_with("=== ")) {
			cases.push_back({line.substr(4), {}, {}});
			is_file = true;
		} else if (cases.empty()) {
			continue; /* comments on the subject of the file */
		} else if (line == "---") {
			is_file = false;
		} else if (is_file) {
			cases.back().text += with_bytes(line) + '\n';
		} else if (!line.empty()) {
			cases.back().said.push_back(line);
		}
	}
	return cases;
}

/* Checks a text as main() does for --check. */
std::vector<std::string> check(const std::string &text)
{
	auto read = relay::parse_config(text, "f");
	if (auto *errors = std::get_if<relay::config_errors>(&read))
		return errors->lines;
	const auto &made = std::get<relay::config>(read);
	std::vector<std::string> warnings;
	std::vector<std::string> found;
	for (const auto &each : relay::tls_problems(made, std::chrono::seconds(0), warnings))
		found.push_back(relay::with_place(made, "f", each));
	return found.empty() ? relay::file_problems(made, "f") : found;
}

bool is_as_said(const std::string &found, const std::string &said)
{
	return said.ends_with("...") ? found.starts_with(said.substr(0, said.size() - 3))
				     : found == said;
}

class BadConfig : public testing::TestWithParam<const char *>
{
};

TEST_P(BadConfig, IsExplained)
{
	const auto cases = read_cases(GetParam());
	ASSERT_FALSE(cases.empty());
	std::set<std::string> titles;
	for (const auto &each : cases) {
		SCOPED_TRACE(each.title);
		EXPECT_TRUE(titles.insert(each.title).second) << "two cases have this title";
		ASSERT_FALSE(each.said.empty()) << "the case does not say what is expected";
		if ((each.title.starts_with("[tls]") && !relay::tls_is_built) ||
		    (each.title.starts_with("[pcre2]") && !relay::regex::is_built))
			continue;
		const auto found = check(each.text);
		EXPECT_EQ(found.size(), each.said.size()) << testing::PrintToString(found);
		for (std::size_t i = 0; i < found.size() && i < each.said.size(); i++)
			EXPECT_TRUE(is_as_said(found[i], each.said[i]))
				<< "is:       " << found[i] << "\nexpected: " << each.said[i];
	}
}

INSTANTIATE_TEST_SUITE_P(Of, BadConfig,
			 testing::Values("syntax", "punctuation", "keys", "process", "listeners",
					 "clients", "tls", "groups", "checks", "regexes", "agents",
					 "udp"),
			 [](const auto &each) { return std::string(each.param); });

} // namespace
