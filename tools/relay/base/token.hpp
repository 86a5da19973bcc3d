/* SPDX-License-Identifier: MIT */
/* The secret token that clients of the control server must send, and the file that contains it. */
#ifndef RELAY_TOKEN_HPP
#define RELAY_TOKEN_HPP

#include <string>
#include <string_view>

namespace relay
{

/*
 * Reads the first line of a file, without the blanks around it: 16 to 512 printable characters. The
 * file must not be accessible to others than its owner and its group. Returns false, and sets why,
 * if the token cannot be read. Blocks on the file system.
 */
bool read_token(const std::string &file, std::string &into, std::string &why);

/* Whether `authorization` is the value of an Authorization header with the token. The time that
 * this takes does not depend on how much of the token is right. */
bool has_token(std::string_view authorization, std::string_view token) noexcept;

} // namespace relay

#endif
