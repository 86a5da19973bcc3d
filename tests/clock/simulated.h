/* SPDX-License-Identifier: MIT */
/*
 * The counter's clock in a simulated world: ticks.c, steer.c and piece.c of
 * src/clock are compiled on a counter and a kernel's clock that the test moves. What a machine does
 * once in years takes no time here, and happens at any moment that the test chooses. Reading a
 * clock takes as long as on a real machine.
 */
#ifndef SENNIT_TEST_SIMULATED_H
#define SENNIT_TEST_SIMULATED_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct world {
	double truth;      /* ns since the start, which no clock shows */
	double counter;    /* counter steps per ns of truth */
	double counter_at; /* the counter's value at truth 0 */
	double monotonic;  /* CLOCK_MONOTONIC, in ns */
	double rate;       /* how far it moves per ns of truth */
	double wall;       /* how far CLOCK_REALTIME is ahead of it */
	double stall;      /* how long the next call to the kernel is preempted before it begins */
};

extern struct world world;

/* A new process in a world where nothing has happened yet. */
void start_world(void);

/* Lets time pass. */
void pass(double ns);

int64_t simulated_ticks_now(void);
int64_t simulated_walltime(void);
int simulated_ticks_source(void);

#ifdef __cplusplus
}
#endif

#endif
