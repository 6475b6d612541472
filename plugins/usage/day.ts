const dayMs = 86_400_000

/** The day of UTC that a time falls on, such as `2027-01-31`. */
export const dayOf = (time: Date): string => time.toISOString().slice(0, 10)

/** The beginning of the next day of UTC. */
export const nextDay = (time: Date): Date =>
  new Date((Math.floor(time.getTime() / dayMs) + 1) * dayMs)

/** The day so many days before a time. */
export const daysBefore = (time: Date, days: number): string =>
  dayOf(new Date(time.getTime() - days * dayMs))

/** How many days there are from one day to another, both of them counted. */
export const daysFromTo = (from: string, to: string): number =>
  (Date.parse(to) - Date.parse(from)) / dayMs + 1
