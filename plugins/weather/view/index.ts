import { addStyle, type ShowView } from 'oracle-runtime-client/view'
import style from './style.css?inline'

/** The weather of a place as a card: what the agent shows as `WeatherCard`. */
const show: ShowView = (element, { about }) => {
  const removeStyle = addStyle(style)
  const { city, country, temp_c: degrees, conditions } = about
  const place = [city, country].filter(Boolean).join(', ')
  const part = (kind: string, text: string, within: Element) => {
    const made = document.createElement(kind)
    made.textContent = text
    within.append(made)
    return made
  }
  const card = part('section', '', element)
  card.className = 'weather'
  card.ariaLabel = `Weather in ${city}`
  part('span', typeof degrees === 'number' ? `${Math.round(degrees)}°` : '–', card)
  const words = part('p', '', card)
  part('strong', place, words)
  part('br', '', words)
  words.append(typeof conditions === 'string' ? conditions : '')
  return () => {
    element.replaceChildren()
    removeStyle()
  }
}
export default show
