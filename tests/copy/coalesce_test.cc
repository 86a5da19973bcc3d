// SPDX-License-Identifier: MIT
//
// Coalescing small pieces: the policy alone, which only counts, and relays that coalesce.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include <sennit/copy.h>
#include <sennit/unstable.h>

#include "copy/coalesce.h"
#include "support/routes.h"

namespace
{

using namespace test;

constexpr int64_t soon = SN_COALESCE_QUICK_NS / 2, late = SN_COALESCE_QUICK_NS;
constexpr size_t small_piece = 1000;

struct Coalesce : sn_coalesce {
	explicit Coalesce(sn_relay_coalesce mode = SN_RELAY_COALESCE_AUTO)
	{
		sn_coalesce_init(this, mode);
	}

	bool piece(int64_t after = soon, size_t bytes = small_piece, uint32_t answered = 0)
	{
		now += after;
		said += answered;
		return sn_coalesce_piece(this, now, bytes, said);
	}
	// Reports small pieces in quick succession, at most 100,000, until the policy coalesces.
	// Returns how many there were.
	uint32_t begin()
	{
		uint32_t n = 1;

		while (!piece() && n < 100000)
			n++;
		EXPECT_EQ(SN_COALESCE_LEAST, sn_coalesce_wait(this, now, said));
		return n;
	}
	// Reports that a wait of this length brought so many bytes. Returns how many bytes are
	// enough for the next wait.
	uint32_t wait(uint64_t bytes, int64_t ns, uint32_t answered = 0)
	{
		now += ns;
		said += answered;
		sn_coalesce_more(this, bytes);
		return sn_coalesce_wait(this, now, said);
	}

	int64_t now = 1000000000;
	uint32_t said = 0;
};

TEST(Coalesce, SmallPiecesInQuickSuccessionBeginIt)
{
	Coalesce state;

	for (int i = 0; i < 1000; i++)
		EXPECT_FALSE(state.piece(late)) << "pieces that are far apart";
	for (int i = 0; i < 1000; i++)
		EXPECT_FALSE(state.piece(soon, SN_COALESCE_SMALL)) << "large";
	for (int i = 0; i < 1000; i++)
		EXPECT_FALSE(state.piece(soon, small_piece, 1)) << "each answered";
	for (uint32_t i = 0; i < 1000; i++)
		EXPECT_FALSE(state.piece(i % SN_COALESCE_PIECES ? soon : late))
			<< "too few pieces in a row";
	EXPECT_FALSE(state.piece(late));
	EXPECT_EQ(SN_COALESCE_PIECES, state.begin());
}

TEST(Coalesce, TheThresholdFollowsTheRate)
{
	Coalesce state;
	const int64_t time = SN_COALESCE_AIM_NS;

	state.begin();
	EXPECT_FALSE(sn_coalesce_more(&state, SN_COALESCE_LEAST - 1));
	EXPECT_TRUE(sn_coalesce_more(&state, 1)) << "enough pieces in a row";
	EXPECT_EQ(SN_COALESCE_LEAST, state.wait(0, time));
	for (uint32_t want = 2 * SN_COALESCE_LEAST; want <= SN_COALESCE_MOST; want *= 2)
		EXPECT_EQ(want, state.wait(want, time));
	EXPECT_EQ(SN_COALESCE_MOST, state.wait(100 * SN_COALESCE_MOST, time));
	EXPECT_EQ(SN_COALESCE_MOST, state.wait(SN_COALESCE_MOST / 2, time)) << "not immediately";
	for (uint32_t want = SN_COALESCE_MOST / 2; want >= SN_COALESCE_LEAST; want /= 2)
		EXPECT_EQ(want, state.wait(want / 2, time));
	EXPECT_EQ(SN_COALESCE_LEAST, state.wait(2 * small_piece, SN_COALESCE_MOST_NS))
		<< "two pieces in the time of one";
}

TEST(Coalesce, StopsWhenThereIsNothingToGain)
{
	for (const uint64_t bytes : {uint64_t(0), uint64_t(2 * small_piece - 1)}) {
		Coalesce state;

		state.begin();
		EXPECT_EQ(0u, state.wait(bytes, SN_COALESCE_MOST_NS)) << bytes;
		EXPECT_FALSE(state.piece(late));
		EXPECT_EQ(SN_COALESCE_PIECES, state.begin())
			<< "as soon as the first time, because no answer was delayed";
	}
}

TEST(Coalesce, AnAnswerStopsItForLongerEachTime)
{
	Coalesce state;
	const uint64_t little = SN_COALESCE_LEAST;
	uint32_t wanted = SN_COALESCE_PIECES;

	for (int i = 0; i < 20; i++) {
		EXPECT_FALSE(state.piece(late));
		EXPECT_EQ(wanted, state.begin());
		EXPECT_EQ(0u, state.wait(little, SN_COALESCE_AIM_NS, 1));
		wanted = std::min(2 * wanted, SN_COALESCE_MOST_PIECES);
	}
	EXPECT_EQ(SN_COALESCE_MOST_PIECES, wanted);
	// A success of coalescing resets the penalty.
	state.begin();
	for (uint64_t sum = 0; sum < SN_COALESCE_WORTH_IT; sum += SN_COALESCE_MOST)
		EXPECT_NE(0u, state.wait(SN_COALESCE_MOST, SN_COALESCE_AIM_NS));
	EXPECT_EQ(0u, state.wait(little, SN_COALESCE_AIM_NS, 1));
	EXPECT_FALSE(state.piece(late));
	EXPECT_EQ(SN_COALESCE_PIECES, state.begin());
}

TEST(Coalesce, AnAnswerAfterItHasStoppedCountsToo)
{
	Coalesce state;

	EXPECT_FALSE(state.piece(late));
	state.begin();
	EXPECT_NE(0u, state.wait(SN_COALESCE_LEAST, SN_COALESCE_AIM_NS));
	EXPECT_EQ(0u, state.wait(1, SN_COALESCE_MOST_NS));
	EXPECT_FALSE(state.piece(100 * late, small_piece, 1));
	EXPECT_EQ(2 * SN_COALESCE_PIECES, state.begin());
	EXPECT_EQ(0u, state.wait(0, SN_COALESCE_MOST_NS));
	EXPECT_FALSE(state.piece(100 * late, small_piece, 1));
	EXPECT_EQ(2 * SN_COALESCE_PIECES, state.begin())
		<< "nothing was coalesced before this answer";
}

TEST(Coalesce, AlwaysBeginsWithTheFirstPiece)
{
	Coalesce state(SN_RELAY_COALESCE_ALWAYS);

	for (int i = 0; i < 100; i++) {
		EXPECT_TRUE(state.piece(10 * late, small_piece, 1));
		EXPECT_EQ(SN_COALESCE_LEAST, sn_coalesce_wait(&state, state.now, state.said));
		EXPECT_NE(0u, state.wait(SN_COALESCE_LEAST, SN_COALESCE_AIM_NS, 1));
		EXPECT_EQ(0u, state.wait(0, SN_COALESCE_MOST_NS, 1))
			<< "otherwise an idle relay would not rest";
	}
}

// ---- relays ----

struct Route : test::RelayRoute {
	explicit Route(sn_relay_coalesce mode) { tuning.coalesce = mode; }
	// Passes a piece through although nothing follows it.
	void pass(const std::string &piece)
	{
		char buf[4096];

		ASSERT_EQ(ssize_t(piece.size()),
			  sn_tcp_write_all(from.client, piece.data(), piece.size(), nullptr));
		for (size_t got = 0; got < piece.size();) {
			const ssize_t n = sn_tcp_read(to.server, buf, sizeof buf);

			ASSERT_GT(n, 0);
			ASSERT_EQ(0, memcmp(buf, piece.data() + got, size_t(n)));
			got += size_t(n);
		}
	}
	void finish()
	{
		EXPECT_EQ(0, sn_tcp_shutdown(from.client, SN_SHUT_WRITE));
		EXPECT_EQ(0, sn_tcp_shutdown(to.server, SN_SHUT_WRITE));
		EXPECT_EQ(0, relay->join());
		EXPECT_EQ(SN_RELAY_FINISHED, result.end);
	}
};

TASK_TEST(CoalesceInRelays, EachPieceArrivesEvenIfNothingFollows, 1, 2)
{
	test::Random random;
	Route route(SN_RELAY_COALESCE_ALWAYS);

	route.start();
	for (int i = 0; i < test::scaled(2000); i++)
		route.pass(test::random_bytes(random, 1 + random.below(4000)));
	route.finish();
}

TASK_TEST(CoalesceInRelays, TheMarkIsRaisedMeanwhileAndLoweredAfterwards, 1, 2)
{
	Route route(SN_RELAY_COALESCE_ALWAYS);

	EXPECT_EQ(1, test::low_water(route.from.server));
	route.start();
	EXPECT_TRUE(test::eventually([&] {
		EXPECT_EQ(3, sn_tcp_write_all(route.from.client, "abc", 3, nullptr));
		return test::low_water(route.from.server) > 1;
	}));
	Task drain([&] {
		test::read_to_end(route.to.server);
		return 0;
	});
	EXPECT_EQ(0, sn_tcp_shutdown(route.from.client, SN_SHUT_WRITE));
	EXPECT_EQ(0, drain.join());
	EXPECT_EQ(0, sn_tcp_shutdown(route.to.server, SN_SHUT_WRITE));
	EXPECT_EQ(0, route.relay->join());
	EXPECT_EQ(1, test::low_water(route.from.server));
}

TASK_TEST(CoalesceInRelays, AMarkOfTheProgramsOwnIsLeftAlone)
{
	Route route(SN_RELAY_COALESCE_ALWAYS);
	const int own = 2;

	ASSERT_EQ(0, setsockopt(sn_tcp_fd(route.from.server), SOL_SOCKET, SO_RCVLOWAT, &own,
				sizeof own));
	route.start();
	for (int i = 0; i < 200; i++) {
		route.pass("two or more");
		EXPECT_EQ(own, test::low_water(route.from.server));
	}
	route.finish();
	EXPECT_EQ(own, test::low_water(route.from.server));
}

// Bytes that came before the relay's first read are read without waiting for more, however many
// they are.
TEST(CoalesceInRelays, AvailableBytesAreNotHeldBack)
{
	for (const char *pipes : {"0", "64"}) {
		test::Environment most("SENNIT_PIPES", pipes);

		probe_pipes_reset();
		test::run([] {
			Route route(SN_RELAY_COALESCE_ALWAYS);
			const int size = 8 << 20;
			struct sn_copy_stats before, after;

			ASSERT_EQ(0, setsockopt(sn_tcp_fd(route.from.server), SOL_SOCKET, SO_RCVBUF,
						&size, sizeof size));
			test::fill(route.from.client);
			const int readable = test::unread(route.from.server);
			EXPECT_EQ(0, sn_copy_stats(&before));
			route.start();
			std::string all(size_t(readable), 0);
			for (size_t got = 0; got < all.size();) {
				const ssize_t n =
					sn_tcp_read(route.to.server, &all[got], all.size() - got);

				ASSERT_GT(n, 0);
				got += size_t(n);
			}
			EXPECT_EQ(0, sn_copy_stats(&after));
			EXPECT_EQ(std::string(size_t(readable), 'f'), all);
			// The last bytes may be fewer than the threshold.
			EXPECT_LE(after.coalesced_late - before.coalesced_late, 3u) << readable;
			sn_tcp_cancel(route.from.server);
			EXPECT_EQ(-ECANCELED, route.relay->join());
		});
	}
	probe_pipes_reset();
}

TASK_TEST(CoalesceInRelays, NeverDoesNotCoalesce)
{
	Route route(SN_RELAY_COALESCE_NEVER);

	route.start();
	for (int i = 0; i < 1000; i++) {
		route.pass("piece");
		EXPECT_EQ(1, test::low_water(route.from.server));
	}
	route.finish();
}

} // namespace
