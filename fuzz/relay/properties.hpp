/* SPDX-License-Identifier: MIT */
/*
 * What must hold for the readers of a connection's first bytes, whatever the bytes are. Aborts when
 * it does not. For libFuzzer (the *_fuzz.cc beside this) and for tests/relay/first_bytes_test.cc,
 * which is the short form of the fuzzing.
 *
 * For both readers: they end and read nothing outside of the bytes (the sanitizers check that), and
 * their result for a beginning of the bytes agrees with that for the whole (parsed.hpp).
 */
#ifndef FUZZ_RELAY_PROPERTIES_HPP
#define FUZZ_RELAY_PROPERTIES_HPP

#include "wire/proxy_header.hpp"
#include "wire/tls_hello.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace properties
{

inline void require(bool holds, const char *what)
{
	if (holds)
		return;
	std::fprintf(stderr, "does not hold: %s\n", what);
	std::abort();
}

/*
 * read(bytes) -> parsed. Reads every beginning of the bytes from memory of exactly that size, so
 * that the address sanitizer notices the first byte beyond it.
 */
template <class Read>
void agree_with_beginnings(std::string_view bytes, Read read)
{
	using state = relay::parsed::state;
	const relay::parsed whole = read(bytes);
	/* Tries all beginnings of short inputs, and of long ones about 200, most of them near
	 * the beginning and the end. */
	for (std::size_t n = 0; n < bytes.size();
	     n += n < 112 || bytes.size() - n < 16 ? 1 : 1 + bytes.size() / 64) {
		const std::unique_ptr<char[]> copy(new char[n ? n : 1]);
		bytes.copy(copy.get(), n);
		const relay::parsed part = read(std::string_view(copy.get(), n));
		switch (part.is) {
		case state::more:
			require(part.size > n, "more bytes are asked for than were given");
			require(whole.is != state::done || part.size <= whole.size,
				"no more is asked for than is read");
			break;
		case state::done:
			require(part.size <= n, "only bytes that were given are taken");
			require(part == whole, "done stays done, with the same size");
			break;
		case state::bad:
			require(*part.why != '\0', "a reason is given");
			require(whole.is == state::bad, "bad stays bad");
			break;
		}
	}
	require(whole.is != state::done || whole.size <= bytes.size(),
		"only bytes that were given are taken");
	require(whole.is != state::more || whole.size > bytes.size(),
		"more bytes are asked for than were given");
}

inline void proxy_header(std::string_view bytes)
{
	using relay::proxy_header;
	using relay::proxy_versions;

	for (const auto allowed : {proxy_versions::v1, proxy_versions::v2, proxy_versions::either})
		agree_with_beginnings(bytes, [allowed](std::string_view part) {
			proxy_header unused;
			return relay::read_proxy_header(part, unused, allowed);
		});

	proxy_header first;
	const auto read = relay::read_proxy_header(bytes, first);
	if (!read)
		return;
	require(read.size <= relay::proxy_v2_most, "no header is longer than allowed");
	for (const auto *end : {&first.source, &first.destination})
		for (const char c : relay::to_text(first, *end))
			require(c > ' ' && c <= '~', "text is printable");

	/* A header that is written is read back as the same, except for fields that are not
	 * written. */
	for (const bool checksum : {false, true}) {
		proxy_header expected = first;
		proxy_header again;
		expected.checked = checksum && first.of != proxy_header::family::none;
		const auto written = relay::write_proxy_v2(first, checksum);
		/* The checksum may be one record more than there was. */
		const auto second = relay::read_proxy_header(written, again, proxy_versions::v2,
							     relay::proxy_v2_most + 7);
		require(second && second.size == written.size(), "version 2 is read as written");
		require(again == expected, "version 2 is read as the same");
	}
	proxy_header again;
	const auto written = relay::write_proxy_v1(first);
	const auto second = relay::read_proxy_header(written, again, proxy_versions::v1);
	require(written.size() <= relay::proxy_v1_most, "version 1 is not too long");
	require(second && second.size == written.size(), "version 1 is read as written");
	if (again.of != proxy_header::family::none)
		require(again.of == first.of && again.source == first.source &&
				again.destination == first.destination,
			"version 1 is read as the same");
}

inline void tls_hello(std::string_view bytes)
{
	for (const std::size_t most : {relay::tls_hello_most, std::size_t{300}}) {
		relay::tls_hello_reader in_pieces(most);
		agree_with_beginnings(bytes, [&, is_whole = true](std::string_view part) mutable {
			relay::tls_hello alone;
			relay::tls_hello continued;
			const auto read = relay::read_tls_hello(part, alone, most);
			/* The first call is for all bytes, and the next ones have more and more. */
			if (!is_whole)
				require(in_pieces.read(part, continued) == read &&
						continued == alone,
					"bytes that come in pieces are read as the same");
			is_whole = false;
			return read;
		});
		relay::tls_hello hello;
		const auto read = relay::read_tls_hello(bytes, hello, most);
		if (!read) {
			require(hello.name.empty() && hello.alpn.empty(),
				"a hello that is not read sets nothing");
			require(read.is != relay::parsed::state::more ||
					(read.size <= most &&
					 hello.is == relay::tls_hello::other::none),
				"what is asked for is allowed");
			continue;
		}
		require(read.size <= most, "no hello is longer than allowed");
		require(hello.is == relay::tls_hello::other::none, "a hello is a hello");
		char previous = '.';
		for (const char c : hello.name) {
			require((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
					c == '_' || (c == '.' && previous != '.'),
				"the name is one that a host can have");
			previous = c;
		}
		require(hello.name.size() <= 253 && (hello.name.empty() || previous != '.'),
			"the name is one that a host can have");
	}
}

} // namespace properties

#endif
