import type { User } from '#core'

/** Who asks: the registry reads as this caller. */
export interface Asking {
  readonly user?: User
  readonly caller?: string
}

/** The claims that a survey asks for: one about each twin that was drawn. */
interface Asked {
  readonly purpose: string
  readonly protocol: string
  readonly subjects: readonly string[]
}

/** What sampling asks of the registry, where the app has it. */
export interface Twins {
  twins(
    query: {
      readonly where?: string
      readonly parameters?: Readonly<Record<string, string | number | boolean>>
    },
    path: string | undefined,
    asking: Asking,
  ): AsyncIterable<{ readonly did: string; readonly value: unknown }>
  approved(
    wanted: {
      readonly protocol: string
      readonly subjects: readonly string[]
      readonly since?: string | undefined
      readonly until?: string | undefined
    },
    asking: Asking,
  ): Promise<
    readonly {
      readonly id: string
      readonly subject: string
      readonly properties: Readonly<Record<string, unknown>>
    }[]
  >
  openClaims(
    wanted: Asked & { readonly type: string },
    asking: Asking,
  ): Promise<{ readonly opened: number; readonly gone: readonly string[] }>
  openAbout(wanted: Asked, asking: Asking): Promise<ReadonlyMap<string, string>>
  learnImprecision(
    imprecisionOf: (
      project: string,
    ) => Promise<{ readonly share: number; readonly source: string } | undefined>,
  ): void
}

/** Who asks, as a route or a tool has it: an absent member stays absent. */
export const askingOf = ({
  user,
  caller,
}: {
  user?: User | undefined
  caller?: string
}): Asking => ({
  ...(user && { user }),
  ...(caller !== undefined && { caller }),
})
