/* SPDX-License-Identifier: MIT */
#include "config/near_word.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace relay
{
namespace
{

/* A longer text is hardly a misspelt word, and would take long to compare. */
constexpr std::size_t longest_word = 64;

/* A shorter text could be the beginning of anything. */
constexpr std::size_t least_beginning = 4;

std::string plain(std::string_view text)
{
	std::string made(text);
	for (char &c : made)
		c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == '-' ? '_' : c;
	return made;
}

/* The number of edits from one to the other: adding, removing or replacing a letter, or swapping
 * two neighbours. */
std::size_t distance(std::string_view a, std::string_view b)
{
	std::vector<std::size_t> before(b.size() + 1);
	std::vector<std::size_t> above(b.size() + 1);
	std::vector<std::size_t> row(b.size() + 1);
	std::iota(above.begin(), above.end(), std::size_t{0});
	for (std::size_t i = 0; i < a.size(); i++) {
		row[0] = i + 1;
		for (std::size_t j = 0; j < b.size(); j++) {
			row[j + 1] = std::min({above[j + 1] + 1, row[j] + 1,
					       above[j] + (a[i] == b[j] ? 0U : 1U)});
			if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
				row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
		}
		before.swap(above);
		above.swap(row);
	}
	return above.back();
}

} // namespace

std::string near_word(std::string_view written, const std::set<std::string> &words)
{
	if (written.size() > longest_word)
		return "";
	const std::string word = plain(written);
	std::string best;
	std::size_t least = longest_word;
	for (const auto &each : words) {
		const bool is_beginning = word.size() >= least_beginning && each.starts_with(word);
		const std::size_t most = word.size() / 3;
		/* The distance is at least the difference of the sizes. */
		if (!is_beginning &&
		    (each.size() > word.size() + most || word.size() > each.size() + most))
			continue;
		const std::size_t apart = distance(word, each);
		if (apart < least && (apart <= most || is_beginning)) {
			best = each;
			least = apart;
		}
	}
	return best;
}

} // namespace relay
