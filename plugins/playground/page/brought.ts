import { ask, type Oracle } from './oracle.ts'

/** A part of this page that a plugin of the server brings, as `GET /views` lists it. */
export interface Brought {
  readonly name: string
  readonly plugin: string
  readonly label: Readonly<Record<string, string | undefined>> & { readonly en: string }
  readonly module: string
  readonly state: string
  readonly reason?: string
  readonly feature?: 'operator'
  /** Where in a chat it is shown; without it, it is a view beside the chat. */
  readonly within?: 'answer' | 'composer'
}

/** What the plugins of the server bring to this page, but for what only operators may see. None where nothing can be read. */
export async function readBrought({ isOperator }: Oracle): Promise<readonly Brought[]> {
  const { views } = await ask<{ views: readonly Brought[] }>('/views').catch(() => ({ views: [] }))
  return views.filter(({ feature }) => feature !== 'operator' || isOperator)
}

/** What a view is called in the language of the browser, else in English. */
export const labelOf = ({ label }: Brought): string =>
  label[navigator.language.slice(0, 2)] ?? label.en

/** Hears what goes wrong later in the code of a module; returns how to stop. Its file stands in the error's stack. */
export function hearFaults(module: string, tell: (error: unknown) => void): () => void {
  const isOurs = (error: unknown, file = '') =>
    `${file} ${(error as Error | undefined)?.stack ?? ''}`.includes(location.origin + module)
  const failed = ({ error, filename, message }: ErrorEvent) => {
    if (isOurs(error, filename)) tell(error ?? new Error(message))
  }
  const rejected = ({ reason }: PromiseRejectionEvent) => {
    if (isOurs(reason)) tell(reason)
  }
  addEventListener('error', failed)
  addEventListener('unhandledrejection', rejected)
  return () => {
    removeEventListener('error', failed)
    removeEventListener('unhandledrejection', rejected)
  }
}
