/* SPDX-License-Identifier: MIT */
#include "base/token.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <strings.h>
#include <sys/stat.h>
#include <system_error>

namespace relay
{
namespace
{

constexpr std::size_t shortest_token = 16;
constexpr std::size_t longest_token = 512;

} // namespace

bool read_token(const std::string &file, std::string &into, std::string &why)
{
	const std::unique_ptr<std::FILE, int (*)(std::FILE *)> in(std::fopen(file.c_str(), "re"),
								  std::fclose);
	struct stat about {
	};
	if (!in || fstat(fileno(in.get()), &about) != 0) {
		why = file + ": cannot be read: " + std::generic_category().message(errno) +
		      "; expected a file with the token in its first line";
		return false;
	}
	if (about.st_mode & 07) {
		why = file + ": is accessible to every user; expected a mode such as 0600";
		return false;
	}
	char text[longest_token + 64];
	const std::size_t n = std::fread(text, 1, sizeof text, in.get());
	std::string_view line(text, n);
	line = line.substr(0, std::min(line.find('\n'), line.size()));
	while (!line.empty() && (line.front() == ' ' || line.front() == '\t'))
		line.remove_prefix(1);
	while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r'))
		line.remove_suffix(1);
	if (line.size() < shortest_token || line.size() > longest_token ||
	    !std::ranges::all_of(line, [](char c) { return c > ' ' && c < '\x7f'; })) {
		why = file +
		      ": its first line is not a token; expected 16 to 512 characters without "
		      "spaces, such as from \"openssl rand -hex 32\"";
		return false;
	}
	into = line;
	return true;
}

bool has_token(std::string_view authorization, std::string_view token) noexcept
{
	constexpr std::string_view scheme = "Bearer ";
	if (authorization.size() != scheme.size() + token.size() ||
	    strncasecmp(authorization.data(), scheme.data(), scheme.size()) != 0)
		return false;
	authorization.remove_prefix(scheme.size());
	unsigned char different = 0;
	for (std::size_t i = 0; i < token.size(); i++)
		different |= static_cast<unsigned char>(authorization[i] ^ token[i]);
	return different == 0;
}

} // namespace relay
