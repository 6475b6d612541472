import { fits, type Measure, measure } from './gsm7.ts'

/** The parts of a screen in order: a text, numbered lines, and the lines at the foot of every page. */
export interface Drawing {
  readonly text: string
  readonly lines: readonly string[]
  /** Lines of every page, such as `0. Back`. */
  readonly foot: readonly string[]
  /** The line of every page but the last, such as `98. More`. */
  readonly more: string
}

/** Splits a screen into pages that fit. A page can be too long only where its lines alone are too long. */
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

/** Splits a word that is too long for a screen, such as an address, into pieces. */
function shortened(word: string): string[] {
  const characters = [...word]
  const pieces: string[] = []
  for (let at = 0; at < characters.length; at += longestWord)
    pieces.push(characters.slice(at, at + longestWord).join(''))
  return pieces.length > 0 ? pieces : ['']
}

/** The size of the largest page of a screen. A menu is refused at boot if this page does not fit. */
export function largestPage(drawing: Drawing, long: boolean): Measure {
  const whole = [drawing.text, ...drawing.lines, ...drawing.foot].join('\n')
  const measures = (long ? pagesOf(drawing) : [whole]).map(measure)
  return measures.reduce((most, next) =>
    next.size / next.most > most.size / most.most ? next : most,
  )
}
