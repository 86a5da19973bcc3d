/* SPDX-License-Identifier: MIT */
/* Labels: memory */
/*
 * A short form of fuzzing for the parsers of a connection's first bytes (`make fuzz` is the long
 * one): it runs over the seeds, and over mutations of them by a generator with a seed. Builds with
 * sanitizers notice reads outside of the bytes.
 */
#include "mutations.hpp"
#include "relay/properties.hpp"

#include <cstddef>
#include <gtest/gtest.h>
#include <string>

namespace
{

template <class Check>
void mutate(const char *of, Check check)
{
	const auto change = [](std::string &bytes, std::size_t at, mutations::dice &below) {
		switch (below(5)) {
		case 0:
			bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
			break;
		case 1: /* most of the structure is at the start, in small numbers, so change
		         * bytes there */
			bytes[at % 64 % bytes.size()] = static_cast<char>(below(256));
			break;
		case 2:
			bytes.erase(at, 1 + below(8));
			break;
		case 3:
			bytes.insert(at, 1 + below(8), static_cast<char>(below(256)));
			break;
		case 4:
			bytes.resize(at);
			break;
		}
	};
	mutations::check_all(mutations::seeds(of), 4000, 4, change, check);
}

TEST(FirstBytes, ProxyHeaderHoldsItsProperties)
{
	mutate("proxy_header", [](const auto &bytes) { properties::proxy_header(bytes); });
}

TEST(FirstBytes, TlsHelloHoldsItsProperties)
{
	mutate("tls_hello", [](const auto &bytes) { properties::tls_hello(bytes); });
}

} // namespace
