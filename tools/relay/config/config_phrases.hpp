/* SPDX-License-Identifier: MIT */
/* What a check sends and expects: `send`, `expect`, and the keys that stand in their place. */
#ifndef RELAY_CONFIG_PHRASES_HPP
#define RELAY_CONFIG_PHRASES_HPP

#include "config/config_section.hpp"

#include <string>
#include <string_view>

namespace relay
{

/* The keys that read_phrases() takes, except expect_regex, which can be set beside http. */
inline constexpr const char *phrase_keys[] = {"send", "send_hex", "expect", "expect_hex"};

void read_phrases(section &in, check_config &into);

/* Takes a text to send, which must not be empty, or too long. Returns false if there is none. */
bool read_phrase(section &in, std::string_view key, std::string &into);

} // namespace relay

#endif
