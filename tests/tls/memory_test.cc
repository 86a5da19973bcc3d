// SPDX-License-Identifier: MIT
//
// Handshakes for which OpenSSL has no memory.
#include "pairs.h"

#include <atomic>
#include <cstdlib>

#include <openssl/crypto.h>

namespace
{

using namespace test;

constexpr long never = -1;

std::atomic<long> left{never}; // until one allocation fails; never: none does
std::atomic<long> asked{0};

bool fails()
{
	asked++;
	return left >= 0 && left-- == 0;
}

void *allocate(size_t size, const char *, int)
{
	return fails() ? nullptr : malloc(size);
}

void *reallocate(void *memory, size_t size, const char *, int)
{
	return size && fails() ? nullptr : realloc(memory, size);
}

void release(void *memory, const char *, int)
{
	free(memory);
}

// OpenSSL allows this only before it has allocated anything.
const bool is_set = CRYPTO_set_mem_functions(allocate, reallocate, release) == 1;

// Makes both handshakes, with the nth allocation refused. Returns the results.
std::pair<int, int> handshakes(TlsPair &pair, long nth)
{
	std::pair<int, int> results;
	auto shake = [](sn_stream *stream) {
		const int result = sn_tls_handshake(stream, sn_now() + patience);

		// The other end may wait for what this one has no memory to send.
		if (result < 0)
			shutdown(sn_stream_fd(stream), SHUT_RDWR);
		return result;
	};

	asked = 0;
	left = nth;
	Task other([&] { results.second = shake(pair.server); });
	results.first = shake(pair.client);
	other.join();
	left = never;
	return results;
}

// A failure that is the peer's would count against it: a balancer would stop to use a good server.
// OpenSSL 3.0 says that memory was missing in about half of the cases.
TEST(TlsMemory, ALackOfItIsNotThePeersFault)
{
	ASSERT_TRUE(is_set);
	run_tls({2}, [] {
		for (const sn_tls_version version : {SN_TLS_1_2, SN_TLS_1_3}) {
			Usual usual;
			long all = 0;
			int failed = 0, named = 0;

			EXPECT_EQ(0, sn_tls_config_set_versions(usual.client, version, version));
			EXPECT_EQ(0, sn_tls_config_set_resumption(usual.client, 0));
			// The first has no failure, and counts the allocations.
			for (long nth = never; nth < all; nth += 1 + all / 60) {
				TlsPair pair(usual.client, usual.server);
				const auto [client, server] = handshakes(pair, nth);

				all = std::max<long>(all, asked);
				failed += client < 0 || server < 0;
				named += client == -ENOMEM || server == -ENOMEM;
			}
			EXPECT_GT(named, failed / 4) << version << ": of " << failed;
		}
	});
}

} // namespace
