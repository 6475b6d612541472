/** How many sessions stay in memory at most; the server reads others from the database when they continue. */
export const mostHeld = 100_000
/** After this time a handler that has not finished is abandoned: its server has crashed. */
export const abandonedMs = 65_000
/** How long a handler may take. */
export const handlerMs = 60_000
/** How often expired rows are looked for. */
export const forgetEveryMs = 30_000
/** How much longer rows stay than their sessions, so that `countDropped` can still read their versions. */
export const countedWithinMs = 2000
/** How often a session that another replica works on is read again. */
export const pollMs = 100
/** The extra time before `answer` gives up, beside two reply budgets: one to wait for a handler, one for the own handler. */
export const graceMs = 2000
/** How long a closing server waits for handlers; a session with a slower handler later reads that it was interrupted. */
export const closeMs = 2000
