/* SPDX-License-Identifier: MIT */
/* Status lines of HTTP, valid and invalid, in pieces. */
#include "wire/http_status.hpp"

#include <gtest/gtest.h>
#include <memory>
#include <string>

using relay::parse_status_line;
using relay::parsed;

namespace
{

/* Reads from a block of memory of just that size, so that a sanitizer sees a read past its end. */
parsed read(std::string_view bytes, unsigned &status)
{
	const std::unique_ptr<char[]> exact(new char[bytes.size()]);
	bytes.copy(exact.get(), bytes.size());
	return parse_status_line({exact.get(), bytes.size()}, status);
}

unsigned status_of(std::string_view line)
{
	unsigned status = 0;
	const auto whole = read(line, status);
	if (!whole)
		return 0;
	EXPECT_TRUE(line.substr(0, whole.size).ends_with("\r\n")) << line;
	/* Each beginning of the line needs more bytes, but not more than the line has. */
	for (std::size_t n = 0; n < whole.size; n++) {
		unsigned none = 0;
		const auto part = read(line.substr(0, n), none);
		EXPECT_EQ(part.is, parsed::state::more) << line << ' ' << n;
		EXPECT_GT(part.size, n);
		EXPECT_LE(part.size, whole.size);
		EXPECT_EQ(none, 0U);
	}
	return status;
}

TEST(StatusLine, OfServersIsRead)
{
	EXPECT_EQ(status_of("HTTP/1.1 200 OK\r\n"), 200U);
	EXPECT_EQ(status_of("HTTP/1.0 503 Service Unavailable\r\nServer: x\r\n\r\n"), 503U);
	EXPECT_EQ(status_of("HTTP/1.1 204 \r\n"), 204U);
	EXPECT_EQ(status_of("HTTP/1.1 299\r\n"), 299U) << "servers leave the space out";
	EXPECT_EQ(status_of("HTTP/1.1 100 Continue\r\n"), 100U);
	EXPECT_EQ(status_of("HTTP/1.1 599 a\tb \xc3\xa4\r\n"), 599U);
	EXPECT_EQ(status_of("HTTP/1.1 200 " + std::string(relay::status_line_most - 15, 'x') +
			    "\r\n"),
		  200U);
}

TEST(StatusLine, OfAnythingElseIsNone)
{
	for (const std::string line : {"",
				       "x",
				       "SSH-2.0-OpenSSH_9.2\r\n",
				       "HTTP/2 200 OK\r\n",
				       "HTTP/1.2 200 OK\r\n",
				       "http/1.1 200 OK\r\n",
				       " HTTP/1.1 200 OK\r\n",
				       "HTTP/1.1  200 OK\r\n",
				       "HTTP/1.1 20 OK\r\n",
				       "HTTP/1.1 2000 OK\r\n",
				       "HTTP/1.1 -20 OK\r\n",
				       "HTTP/1.1 099 OK\r\n",
				       "HTTP/1.1 600 OK\r\n",
				       "HTTP/1.1 000 OK\r\n",
				       "HTTP/1.1 200 OK\n",
				       "HTTP/1.1 200 OK\r",
				       "HTTP/1.1 200 OK\rX",
				       "HTTP/1.1 200\n",
				       "HTTP/1.1 200 O\1K\r\n",
				       "HTTP/1.1 200 O\x7fK\r\n",
				       "HTTP/1.1\t200 OK\r\n",
				       "HTTP/1.1 200-OK\r\n",
				       "HTTP/11 200 OK\r\n",
				       "\r\nHTTP/1.1 200 OK\r\n"})
		EXPECT_EQ(status_of(line), 0U) << line;
	unsigned status = 0;
	EXPECT_EQ(read(std::string("HTTP/1.1 200 \0\r\n", 16), status).is, parsed::state::bad);
	EXPECT_EQ(read("HTTP/1.1 200 " + std::string(relay::status_line_most - 14, 'x') + "\r\n",
		       status)
			  .is,
		  parsed::state::bad);
	EXPECT_EQ(read("HTTP/1.1 200 " + std::string(relay::status_line_most, 'x'), status).is,
		  parsed::state::bad)
		<< "a line without an end is too long as well";
	EXPECT_EQ(status, 0U);
}

} // namespace
