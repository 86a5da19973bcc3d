/* SPDX-License-Identifier: MIT */
/*
 * The word that was probably meant when another one was written: a misspelt key of the configuration.
 */
#ifndef RELAY_NEAR_WORD_HPP
#define RELAY_NEAR_WORD_HPP

#include <set>
#include <string>
#include <string_view>

namespace relay
{

/*
 * The one of the words that differs least from what was written; empty if none is near. Near is
 * what differs in a third of its letters at most, and what was not written to the end. Capital
 * letters, and hyphens in place of underscores, are no difference.
 */
std::string near_word(std::string_view written, const std::set<std::string> &words);

} // namespace relay

#endif
