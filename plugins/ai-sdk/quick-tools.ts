import type { OutsideTools, User } from '#core'

/** Tells whether calls of a tool are carried out without a person being asked, whatever the turn has read. Looks once. */
export function quickTools({
  user,
  tools,
}: {
  readonly user: User
  readonly tools: OutsideTools
}): (tool: string) => Promise<boolean> {
  let quick: Promise<ReadonlySet<string>> | undefined
  const look = async () => {
    const listed = await tools.list({ user })
    return new Set(
      listed.flatMap(({ name, effect, approve }) =>
        effect === 'read' && approve === false ? name : [],
      ),
    )
  }
  return async (tool) => (await (quick ??= look())).has(tool)
}
