import { fits, type Measure, measure } from './gsm7.ts'

/** What stands on a screen, in order: a text, numbered lines, and the lines that every page has. */
export interface Drawing {
  readonly text: string
  readonly lines: readonly string[]
  /** Such as `0. Back`. */
  readonly foot: readonly string[]
  /** Such as `98. More`, on every page but the last. */
  readonly more: string
}

/** The pages of a screen, each of which fits where that is possible at all. */
export function pagesOf({ text, lines, foot, more }: Drawing): string[] {
  const whole = [text, ...lines, ...foot].join('\n')
  if (fits(whole)) return [whole]
  const pages: string[] = []
  let page = ''
  const closed = () => [page, more, ...foot].join('\n')
  const take = (piece: string, joint: string) => {
    const longer = page === '' ? piece : `${page}${joint}${piece}`
    if (page === '' || fits([longer, more, ...foot].join('\n'))) {
      page = longer
      return
    }
    pages.push(closed())
    page = piece
  }
  for (const word of text.split(' ').flatMap(shortened)) take(word, ' ')
  for (const line of lines) take(line, '\n')
  pages.push([page, ...foot].join('\n'))
  return pages
}

const longestWord = 40

/** A word that would not fit on any screen, such as an address, in pieces. */
function shortened(word: string): string[] {
  const characters = [...word]
  const pieces: string[] = []
  for (let at = 0; at < characters.length; at += longestWord)
    pieces.push(characters.slice(at, at + longestWord).join(''))
  return pieces.length > 0 ? pieces : ['']
}

/** The largest page of a screen, which either fits or is the fault. */
export function largestPage(drawing: Drawing, long: boolean): Measure {
  const whole = [drawing.text, ...drawing.lines, ...drawing.foot].join('\n')
  const measures = (long ? pagesOf(drawing) : [whole]).map(measure)
  return measures.reduce((most, next) =>
    next.size / next.most > most.size / most.most ? next : most,
  )
}
