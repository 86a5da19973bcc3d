/* SPDX-License-Identifier: MIT */
/* The output of the program, for people and for other programs. Names come from files, so
 * characters that a terminal could act on are replaced. */
#ifndef TLS_CHECK_TEXT_HPP
#define TLS_CHECK_TEXT_HPP

#include "check.hpp"

#include <string>
#include <vector>

namespace checking
{

/* "file", or "archive.a(member.o)" */
std::string title(const file_report &in, const member_report &of);

std::string to_text(const file_report &all);
std::string to_json(const std::vector<file_report> &all);

} // namespace checking

#endif
