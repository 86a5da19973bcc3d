/* SPDX-License-Identifier: MIT */
/*
 * Finds the word that was probably meant by a misspelt one, such as a key of the configuration.
 */
#ifndef RELAY_NEAR_WORD_HPP
#define RELAY_NEAR_WORD_HPP

#include <set>
#include <string>
#include <string_view>

namespace relay
{

/*
 * Returns the word that differs least from the written text; empty if none is near. A word is near
 * if at most a third of its letters differ, or if it begins with the written text. Capital letters,
 * and hyphens in place of underscores, do not count as differences.
 */
std::string near_word(std::string_view written, const std::set<std::string> &words);

} // namespace relay

#endif
